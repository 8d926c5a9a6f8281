#!/usr/bin/env node
// Simulates a fleet on one Redis and reports where Redis becomes the limit. See docs/design/performance.md.
import { fork, spawn, spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { built } from '../lib/built.mjs';
import { progress } from '../lib/output.mjs';
import { freePort } from '../../test/helpers/free-port.mjs';
import { settings, tokenAt, users } from './records.mjs';

/** @typedef {import('./sidecar.mjs').Counts} Counts */
/** @typedef {import('./sidecar.mjs').Message} Message */

const { values } = parseArgs({
  options: {
    sidecars: { type: 'string', default: '4' },
    tokens: { type: 'string', default: '100000' },
    active: { type: 'string', default: '5000' },
    rate: { type: 'string', default: '500' },
    revocations: { type: 'string', default: '20' },
    seconds: { type: 'string', default: '15' },
    json: { type: 'boolean', default: false },
    help: { type: 'boolean', default: false },
  },
});
if (values.help) {
  process.stdout.write(`node bench/fleet/fleet.mjs [options]     (npm run build first; needs redis-server)

  --sidecars N      processes with a cache each (4)
  --tokens N        tokens in Redis (100000)
  --active N        how many of them are in use (5000)
  --rate N          look-ups a second of each sidecar (500)
  --revocations N   revocations a second (20)
  --seconds N       how long (15)
  --json            one line of JSON
`);
  process.exit(0);
}
const { sidecars, tokens, active, rate, revocations, seconds } = Object.fromEntries(
  Object.entries(values).map(([key, value]) => [key, Number(value)]),
);
const now = () => performance.timeOrigin + performance.now();
const { openRedisStore } = await built('store/redis');

const port = await freePort();
const folder = mkdtempSync(join(tmpdir(), 'latchkey-fleet-'));
const redis = spawn(
  'redis-server',
  ['--port', String(port), '--dir', folder, '--save', '', '--appendonly', 'no'],
  {
    stdio: 'ignore',
  },
);
/** @param {string[]} args */
const cli = (...args) => spawnSync('redis-cli', ['-p', String(port), ...args]).stdout.toString();
while (cli('PING').trim() !== 'PONG') await sleep(20);
/**
 * @param {string} section
 * @param {string} name
 */
const info = (section, name) => Number(new RegExp(`^${name}:([\\d.]+)`, 'm').exec(cli('INFO', section))?.[1]);

const store = await openRedisStore(settings(port));
await store.maintenance.initialize();
await store.directory.change({ customers: [{ id: 'C1', name: 'One' }], users: users() }, Date.now());
const emptyBytes = info('memory', 'used_memory');
for (let from = 0; from < tokens; from += 50_000) {
  const some = Array.from({ length: Math.min(50_000, tokens - from) }, (_, i) => tokenAt(from + i));
  await store.directory.change({ tokens: some }, Date.now());
  progress(`${from + some.length} tokens`);
}
const bytesPerToken = (info('memory', 'used_memory') - emptyBytes) / tokens;

const sent = new Map();
/** @type {number[]} */
const delays = [];
const children = [];
for (let i = 0; i < sidecars; i++) {
  const child = fork(new URL('./sidecar.mjs', import.meta.url), [
    JSON.stringify({ port, tokens, active, rate, seed: i * 7_919 + 1 }),
  ]);
  children.push(child);
  await new Promise((up) => child.once('message', up));
  child.on('message', (/** @type {Message} */ message) => {
    if (!('received' in message)) return;
    const sentAt = sent.get(message.received);
    if (sentAt !== undefined) delays.push(message.at - sentAt);
  });
}
progress('warming the caches');
await sleep(Math.min(10_000, 1000 * Math.max(3, (3 * active) / rate)));
for (const child of children) child.send('reset');
const before = usage();
let revoked = 0;
const startedAt = now();
while (now() - startedAt < seconds * 1000) {
  if (revoked / revocations < (now() - startedAt) / 1000) {
    // One of those in use, from the end, so that enough are left to look up.
    const token = tokenAt((active - 1 - revoked) % tokens);
    sent.set(token.digest, now());
    await store.tokens.revoke([token.id]);
    revoked += 1;
  } else await sleep(1);
  progress(`${Math.round((now() - startedAt) / 1000)} of ${seconds} s`);
}
const after = usage();
await sleep(200);
const counts = await Promise.all(children.map(countsOf));
for (const child of children) child.send('stop');
await Promise.all(children.map((child) => new Promise((gone) => child.once('exit', gone))));
await store.maintenance.close();
redis.kill();
rmSync(folder, { recursive: true, force: true });
progress('');

/** @param {keyof Counts} name */
const sum = (name) => counts.reduce((total, each) => total + each[name], 0);
delays.sort((a, b) => a - b);
/** @param {number} q */
const quantile = (q) => delays[Math.min(delays.length - 1, Math.floor(delays.length * q))] ?? NaN;
const elapsed = seconds;
const cpu = (after.cpu - before.cpu) / elapsed;
const result = {
  sidecars,
  tokens,
  active,
  rate,
  revocations,
  revocation_ms: { p50: round(quantile(0.5)), p99: round(quantile(0.99)), max: round(delays.at(-1) ?? NaN) },
  told_of: `${delays.length} of ${revoked * sidecars}`,
  hit_rate: round(sum('hits') / sum('lookups'), 4),
  commands_per_lookup: round((after.commands - before.commands) / sum('lookups'), 3),
  bytes_per_token: Math.round(bytesPerToken),
  redis_cpu_percent: round(cpu * 100, 1),
  // What one sidecar costs Redis, extrapolated to 80 % of the one core that Redis uses.
  sidecars_at_80_percent: Math.floor(0.8 / (cpu / sidecars)),
};
process.stdout.write(values.json ? `${JSON.stringify(result)}\n` : `${JSON.stringify(result, null, 2)}\n`);

function usage() {
  return {
    cpu: info('cpu', 'used_cpu_user') + info('cpu', 'used_cpu_sys'),
    commands: info('stats', 'total_commands_processed'),
  };
}

/**
 * @param {import('node:child_process').ChildProcess} child
 * @returns {Promise<Counts>}
 */
function countsOf(child) {
  return new Promise((resolve) => {
    child.on('message', (/** @type {Message} */ message) => 'counts' in message && resolve(message.counts));
    child.send('counts');
  });
}

/** @param {number} value */
function round(value, digits = 2) {
  return Number(value.toFixed(digits));
}
