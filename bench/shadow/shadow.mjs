#!/usr/bin/env node
// Measures the cost of a shadow policy: a decision alone, and followed by the shadow policy's.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { built } from '../lib/built.mjs';
import { median } from '../lib/statistics.mjs';

const { values } = parseArgs({
  options: { rounds: { type: 'string', default: '30' }, help: { type: 'boolean', default: false } },
});
if (values.help) {
  process.stdout.write(`npm run bench:shadow -- [options]

  --rounds N   of each row, in turn (30). A figure is the median, in CPU time of this process for one request
`);
  process.exit(0);
}

const PER_ROUND = 20_000;
const { loadConfigToServe, withShadow } = await built('config/load');
const { compilePolicy } = await built('config/policy');
const { syntheticToken } = await built('gate/what-if');
const { Gate } = await built('gate/gate');
const { Ownership } = await built('gate/ownership');
const { ShadowGate } = await built('gate/what-if');
const { NO_DEFAULTS, TokenLimits } = await built('gate/authenticate');
const { Shadow, ShadowDifferences } = await built('pipeline/shadow');

const folder = mkdtempSync(join(tmpdir(), 'latchkey-bench-'));
writeFileSync(
  join(folder, 'latchkey.yaml'),
  'upstream: http://127.0.0.1:3000\npolicy_shadow: ./next-policy.yaml\n',
);
writeFileSync(
  join(folder, 'next-policy.yaml'),
  "policy: { roles: { engineer: { allow: ['*'], deny: ['billing:*'] } } }\n",
);
const loaded = loadConfigToServe(join(folder, 'latchkey.yaml'));
rmSync(folder, { recursive: true });
const promoted = withShadow(loaded);
if (promoted === null) throw new Error('there is no shadow policy');

const user = { id: 'U1', customerId: 'C1', login: 'bob@example.com', name: 'Bob', role: 'billing', passwordHash: null, otpSecret: null, locked: false, createdAt: 0, updatedAt: 0 }; // prettier-ignore
const engineer = syntheticToken({ ...user, role: 'engineer' }, 'global', []);
const billing = syntheticToken(user, 'global', []);
let subject = engineer;
const { sites, policy } = compilePolicy(loaded.config, loaded.lines);
const tokens = { trace: async () => undefined, hasActive: async () => false };
/** @type {import('../../src/gate/gate.js').GateServices} */
const parts = {
  sites,
  policy,
  authenticator: { isSent: () => true, authenticate: () => subject },
  ownership: new Ownership(tokens, policy),
  tokenLimits: new TokenLimits(NO_DEFAULTS, null),
  lastSeen: { note: () => undefined },
  tokens,
  writeLimit: null,
};
const gate = new Gate(parts);
const rules = compilePolicy(promoted.config, promoted.lines);
const shadow = new Shadow(new ShadowGate(parts, rules), new ShadowDifferences('1'), (error) => {
  throw error;
});
/** @type {import('../../src/http/head.js').RequestHead} */
const head = {
  method: 'GET', target: '/service/S1/version/2', path: '/service/S1/version/2', query: '', readings: null, fields: [], key: 'k', scheme: undefined, jwt: undefined, jwtPlace: 'authorization', otp: undefined,
  client: { address: '127.0.0.1', secure: false, host: 'localhost', proxied: false, behindTrustedProxy: false, forwardedFor: '127.0.0.1', port: '', prefix: '' },
  session: undefined, contentType: undefined, contentLength: undefined, hasBody: false, connection: undefined, webSocket: false, expectsContinue: false,
  serviceWorker: false, origin: undefined, fetchSite: undefined, userAgent: 'bench/1.0', trace: undefined,
}; // prettier-ignore

/** @param {boolean} isShadowed */
function decide(isShadowed) {
  const verdict = gate.evaluate(head, Date.now());
  if (verdict instanceof Promise) throw new Error('the decision waits for something');
  if (isShadowed) shadow.compare(head, verdict, 'r-1');
}

/** @type {{ name: string, asks: typeof engineer, isShadowed: boolean, costs: number[] }[]} */
const rows = [
  { name: 'decision alone', asks: engineer, isShadowed: false, costs: [] },
  { name: 'judged twice, the same', asks: engineer, isShadowed: true, costs: [] },
  { name: 'judged twice, a casualty', asks: billing, isShadowed: true, costs: [] },
];
for (let round = -5; round < Number(values.rounds); round++) {
  for (const { asks, isShadowed, costs } of rows) {
    subject = asks;
    const before = process.cpuUsage();
    for (let i = 0; i < PER_ROUND; i++) decide(isShadowed);
    const { user: inUser, system } = process.cpuUsage(before);
    if (round >= 0) costs.push((inUser + system) / PER_ROUND);
  }
}
process.stdout.write(`${'µs of CPU'.padEnd(28)}median\n`);
for (const { name, costs } of rows)
  process.stdout.write(`${name.padEnd(28)}${median(costs).toFixed(2).padStart(6)}\n`);
