#!/usr/bin/env node
// Measures the cost of an assertion, alone and as a share of a small request's cost, in the same
// run. One kind is signed once and reused; the other is bound to its request, and so signed for
// each.
import { parseArgs } from 'node:util';
import { exportJWK, generateKeyPair, jwtVerify, SignJWT } from 'jose';
import { built } from '../lib/built.mjs';
import { startLatchkey } from '../lib/latchkey.mjs';
import { progress } from '../lib/output.mjs';
import { installPeers } from '../lib/peers.mjs';
import { run } from '../lib/processes.mjs';
import { fillStore } from '../lib/records.mjs';
import { measureRound } from '../lib/round.mjs';
import { median } from '../lib/statistics.mjs';
import { warmUp } from '../lib/wrk.mjs';

const { Assertions } = await built('gate/identity');
const { syntheticToken } = await built('gate/what-if');
const { values } = parseArgs({
  options: {
    rounds: { type: 'string', default: '20' },
    seconds: { type: 'string', default: '1' },
    help: { type: 'boolean', default: false },
  },
});
if (values.help) {
  process.stdout.write(`npm run bench:assertion -- [options]

  --rounds N    of each row, in turn (20). A figure is the median, in CPU time for one assertion or one request
  --seconds N   of load on a server in each round (1)

It measures assertions in this process, and servers that forward small requests without one, with one that is
reused and with one that is bound. The ratios are of rounds next to each other.
`);
  process.exit(0);
}

const PER_ROUND = 1_000;
/** Few, so that assertions are reused as for an active user. */
const KEYS = 20;
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

await run(async () => {
  const { rounds, seconds } = { rounds: Number(values.rounds), seconds: Number(values.seconds) };
  const servers = await startServers();
  for (const each of servers) {
    progress(`warm-up: ${each.name}`);
    await warmUp({ url: `http://127.0.0.1:${each.started.port}/`, script: each.load.script, cores: each.place.loadCores });
  }
  for (let round = -2; round < rounds; round++) {
    progress(`round ${round + 3} of ${rounds + 2}`);
    for (const { work, costs } of rows) {
      const cost = await costOf(work);
      if (round >= 0) costs.push(cost);
    }
    // Alternates the order, so that a drift of the machine affects all rows alike.
    for (const each of round % 2 === 0 ? servers : servers.toReversed()) {
      const { started, load, place } = each;
      const measured = await measureRound(started, load, { seconds, cores: place.loadCores, measuredCores: place.cores });
      if (round >= 0) each.costs.push(measured.cpu_us);
    }
  }
  progress('');
  report(servers);
}); // prettier-ignore

/**
 * Starts Latchkey to forward small requests with a token: without an assertion, with a reused one,
 * and with a bound one.
 */
async function startServers() {
  installPeers();
  const { openPlace, prepareLoad } = await import('../compare/subjects.mjs');
  const { findWorkload } = await import('../compare/workloads.mjs');
  const place = await openPlace();
  place.keys = place.keys.slice(0, KEYS);
  const workload = /** @type {import('../compare/workloads.mjs').Workload} */ (findWorkload('token'));
  const assertion = { enabled: true, issuer: settings.issuer, audience: settings.audience };
  const kinds = { 'without an assertion': undefined, 'with one, not bound': assertion, 'with one, bound': { ...assertion, bind: 'request' } };
  const servers = [];
  for (const [name, assertion] of Object.entries(kinds)) {
    const config = assertion === undefined ? {} : { identity: { assertion } };
    const fill = /** @param {string} path */ (path) => fillStore(path, place);
    const { folder, cores, upstreamPort } = place;
    const latchkey = await startLatchkey({ folder, name: name.replaceAll(/\W+/g, '-'), cores, upstreamPort, fill, config });
    const started = { ...latchkey, pids: { proxy: latchkey.pid } };
    const load = await prepareLoad(workload, { name: 'Latchkey' }, started, place);
    servers.push({ name, place, started, load, costs: /** @type {number[]} */ ([]) });
  }
  return servers;
} // prettier-ignore

/**
 * Returns the CPU time of this process for one piece of work, in µs.
 *
 * @param {() => unknown} work
 */
async function costOf(work) {
  const before = process.cpuUsage();
  for (let i = 0; i < PER_ROUND; i++) await work();
  const { user: inUser, system } = process.cpuUsage(before);
  return (inUser + system) / PER_ROUND;
}

/** @param {{ name: string, costs: number[] }[]} servers */
function report(servers) {
  const [plain] = servers;
  const lines = [`${'µs of CPU'.padEnd(40)}median`];
  for (const { name, costs } of rows) lines.push(`${name.padEnd(40)}${median(costs).toFixed(1).padStart(6)}`);
  for (const { name, costs } of servers) {
    // Per round, because other load affects neighbouring rounds alike.
    const ratio = median(costs.map((cost, round) => cost / plain.costs[round]));
    lines.push(
      `${`a small request ${name}`.padEnd(40)}${median(costs).toFixed(1).padStart(6)}  ${ratio.toFixed(2)} x the first`,
    );
  }
  process.stdout.write(`${lines.join('\n')}\n`);
}
