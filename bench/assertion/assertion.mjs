#!/usr/bin/env node
// What an assertion costs: one that was signed before, and one that is bound to its request and so signed for it.
import { parseArgs } from 'node:util';
import { exportJWK, generateKeyPair, jwtVerify, SignJWT } from 'jose';
import { built } from '../lib/built.mjs';
import { median } from '../lib/statistics.mjs';

const { Assertions } = await built('gate/assertion');
const { syntheticToken } = await built('commands/synthetic-subject');
const { values } = parseArgs({
  options: {
    rounds: { type: 'string', default: '20' },
    help: { type: 'boolean', default: false },
  },
});
if (values.help) {
  process.stdout.write(`npm run bench:assertion -- [options]

  --rounds N   of each row, in turn (20). A figure is the median, in CPU time of this process for one assertion
`);
  process.exit(0);
}

const PER_ROUND = 1_000;
const NOW = Date.now();
const user = { id: 'U1', customerId: 'C1', login: 'ada@example.com', name: 'Ada', role: 'engineer', passwordHash: null, otpSecret: null, locked: false, createdAt: 0, updatedAt: 0 }; // prettier-ignore
const subject = syntheticToken(user, 'global:read', ['SVC1']);
const settings = { issuer: 'https://auth.example.com', audience: 'example-api', ttl: 60_000, idleTimeout: 1_800_000, sessionScope: 'global' }; // prettier-ignore

/** @type {{ name: string, work: () => unknown, costs: number[] }[]} */
const rows = [];
for (const algorithm of /** @type {const} */ (['EdDSA', 'ES256'])) {
  const { privateKey, publicKey } = await generateKeyPair(algorithm, { extractable: true });
  const { x: kid = '' } = await exportJWK(publicKey);
  /** @type {import('../../src/accounts/signing-keys.js').Signer} */
  const signer = {
    kid,
    algorithm,
    signsFrom: 0,
    sign: async (header, claims) => new SignJWT(claims).setProtectedHeader(header).sign(privateKey),
  };
  const assertions = new Assertions({ signer: () => signer, findSigner: async () => signer }, settings);
  let count = 0;
  const bound = () => {
    count += 1;
    const request = { method: 'GET', target: `/service/SVC1/item/${count}?page=2`, requestId: `r-${count}` };
    return assertions.boundTo(request, subject, NOW);
  };
  const jwt = await bound();
  rows.push({ name: `${algorithm}, not bound (cached)`, work: () => assertions.of(subject, NOW), costs: [] });
  rows.push({ name: `${algorithm}, bound`, work: bound, costs: [] });
  rows.push({
    name: `${algorithm}, verified`,
    work: () => jwtVerify(jwt, publicKey, { clockTolerance: 3_600 }),
    costs: [],
  });
}

for (let round = -2; round < Number(values.rounds); round++) {
  for (const { work, costs } of rows) {
    const before = process.cpuUsage();
    for (let i = 0; i < PER_ROUND; i++) await work();
    const { user: inUser, system } = process.cpuUsage(before);
    if (round >= 0) costs.push((inUser + system) / PER_ROUND);
  }
}
process.stdout.write(`${'µs of CPU'.padEnd(28)}median\n`);
for (const { name, costs } of rows)
  process.stdout.write(`${name.padEnd(28)}${median(costs).toFixed(1).padStart(6)}\n`);
