#!/usr/bin/env node
// Runs mixed traffic with faults against a server and watches its memory and open files. See
// `--help`.
import { fork } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { connect as connectTcp } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { connect as connectTls } from 'node:tls';
import { parseArgs } from 'node:util';
import { Agent, request } from 'undici';
import { certificateIn } from '../lib/certificate.mjs';
import { reset } from './reset.mjs';
import { startServer } from './server.mjs';

const { values } = parseArgs({
  options: {
    seconds: { type: 'string', default: '300' },
    rate: { type: 'string', default: '300' },
    tls: { type: 'boolean', default: false },
    help: { type: 'boolean', default: false },
  },
});
if (values.help) {
  process.stdout.write(`node bench/soak/soak.mjs [options]     (npm run soak builds first)

  --seconds N     duration (300); the first quarter is not judged
  --rate N        requests per second (300)
  --tls           clients and the upstream use TLS

Requests by token, session and bad credentials, new and revoked tokens, logins, uploads, aborted requests, resets, slow
readers and writers, garbage, and an upstream that occasionally resets, stalls or sends nonsense. At the end it prints
how memory and open files changed. It exits with 1 if they grew, a request got a wrong response, a fault was
logged, a metric was negative, or something is still counted as open at rest.
`);
  process.exit(0);
}
const seconds = Number(values.seconds);
const rate = Number(values.rate);

const folder = mkdtempSync(join(tmpdir(), 'latchkey-soak-'));
const certificate = values.tls ? certificateIn(folder) : undefined;
const ca = certificate && readFileSync(certificate.cert);
const scheme = values.tls ? 'https' : 'http';

const upstream = fork(
  new URL('upstream.mjs', import.meta.url),
  certificate ? [certificate.cert, certificate.key] : [],
);
const [upstreamPort] = await once(upstream, 'message');
const timeouts = { bodyTimeout: 10_000, headersTimeout: 10_000 };
const agent = new Agent({ connections: 64, pipelining: 1, ...timeouts, connect: { ca } });
const server = await startServer(folder, `${scheme}://127.0.0.1:${upstreamPort}`, agent, certificate);
const port = Number(new URL(server.url).port);
/** @type {Map<string, number>} */
const counts = new Map();
/** @type {string[]} */
const wrong = [];
/** @param {string} what */
const count = (what) => counts.set(what, (counts.get(what) ?? 0) + 1);

/**
 * @param {string} what
 * @param {number[]} expected status codes
 * @param {Partial<import('undici').Dispatcher.RequestOptions>} options
 */
async function ask(what, expected, options, path = '/x') {
  try {
    const reply = await request(server.url + path, { dispatcher: agent, ...options });
    const text = await reply.body.text();
    count(`${what} ${reply.statusCode}`);
    if (!expected.includes(reply.statusCode))
      wrong.push(`${what}: ${reply.statusCode} ${text.slice(0, 100)}`);
    return text;
  } catch {
    // The upstream aborted it, and the client must notice.
    count(`${what} broken`);
    return '';
  }
}

/** Opens a connection of a client that handles its bytes itself. */
function open() {
  const to = { port, host: '127.0.0.1' };
  const socket = ca === undefined ? connectTcp(to) : connectTls({ ...to, ca });
  return socket.on('error', () => undefined);
}

/**
 * Sends bytes, ignores the response, and disconnects in one way or another.
 *
 * @param {string} bytes
 */
function rude(bytes) {
  const socket = open();
  socket.write(bytes);
  if (Math.random() < 0.5) socket.pause();
  setTimeout(() => (Math.random() < 0.5 ? reset(socket) : socket.destroy()), Math.random() * 500);
  count('rude');
}

/** Sends an upload chunk by chunk, slower than its response is read. */
function slowWriter() {
  const socket = open().resume();
  socket.write(`POST /x HTTP/1.1\r\nHost: a\r\nService-Key: ${key}\r\nTransfer-Encoding: chunked\r\n\r\n`);
  let pieces = 0;
  const timer = setInterval(() => {
    pieces += 1;
    if (pieces <= 8) socket.write('4\r\nslow\r\n');
    else socket.end('0\r\n\r\n');
  }, 100);
  socket.on('close', () => clearInterval(timer));
  setTimeout(() => socket.destroy(), 3_000);
  count('slow writer');
}

/** Gauges that must be zero once all clients have disconnected. */
const OPEN =
  /^latchkey_(connections|streams|websockets|requests_in_flight|upstream_(active|waiting)_requests)(\{|$)/;

/** Records negative counts. */
async function checkMetrics() {
  const metrics = await server.metrics();
  for (const [series, value] of metrics) if (value < 0) wrong.push(`${series} is ${value}`);
  return metrics;
}

const key = await server.token();
const cookie = await server.session();
const form = { 'Content-Type': 'application/x-www-form-urlencoded' };
const forwarded = [200, 502];
/** @type {[weight: number, act: () => unknown][]} */
const KINDS = [
  [60, () => ask('token', forwarded, { headers: { 'Service-Key': key } })],
  [10, () => ask('session', forwarded, { headers: { Cookie: cookie } })],
  [8, () => ask('upload', forwarded, { method: 'POST', headers: { 'Service-Key': key }, body: Buffer.alloc(20_000) })],
  [5, () => ask('bad token', [401], { headers: { 'Service-Key': `lk${'a'.repeat(38)}` } })],
  [1, () => ask('wrong login', [401, 429, 503], { method: 'POST', headers: form, body: `user=u${Math.random()}%40a&password=x` }, '/login')],
  [1, async () => {
    const made = await server.token();
    if (made === undefined) {
      count('new token refused');
      return;
    }
    await ask('new token', forwarded, { headers: { 'Service-Key': made } });
    await ask('revoke', [204], { method: 'DELETE', headers: { 'Service-Key': made } }, '/tokens/self');
    await ask('revoked', [401], { headers: { 'Service-Key': made } });
  }],
  [6, () => rude(`GET /x HTTP/1.1\r\nHost: a\r\nService-Key: ${key}\r\n\r\n`)],
  [3, () => rude(`POST /x HTTP/1.1\r\nHost: a\r\nService-Key: ${key}\r\nContent-Length: 1000\r\n\r\nhalf`)],
  [1, slowWriter],
  [2, () => rude('garbage\r\n\r\n')],
  [1, () => rude('CONNECT a:1 HTTP/1.1\r\nHost: a\r\n\r\n')],
  [1, () => rude(`GET /x HTTP/1.1\r\nHost: a\r\nService-Key: ${key}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n`)],
]; // prettier-ignore
const total = KINDS.reduce((sum, [weight]) => sum + weight, 0);

function one() {
  let left = Math.random() * total;
  const [, act] = KINDS.find(([weight]) => (left -= weight) < 0) ?? KINDS[0];
  return act();
}

/** @type {{ at: number, rss: number, files: number }[]} `at` in seconds, `rss` in MiB */
const samples = [];
const startedAt = Date.now();
const elapsed = () => (Date.now() - startedAt) / 1000;
const traffic = setInterval(() => {
  for (let i = 0; i < rate / 20; i++) void one();
}, 50);
while (elapsed() < seconds) {
  await sleep(1_000);
  const status = readFileSync(`/proc/${server.pid}/status`, 'utf8');
  const rss = Number(/VmRSS:\s+(\d+)/.exec(status)?.[1]) / 1024;
  const files = readdirSync(`/proc/${server.pid}/fd`).length;
  samples.push({ at: elapsed(), rss, files });
  if (samples.length % 10 === 0) await checkMetrics();
  if (process.stdout.isTTY)
    process.stdout.write(`\r${Math.round(elapsed())} s  ${Math.round(rss)} MiB  ${files} files   `);
}
clearInterval(traffic);
await sleep(3_000);
await agent.close();
await sleep(4_000);
for (const [series, value] of await checkMetrics())
  if (OPEN.test(series) && value !== 0) wrong.push(`${series} is ${value} at rest`);
const filesAtRest = readdirSync(`/proc/${server.pid}/fd`).length;

/**
 * Returns the growth per hour, by least squares over the samples after the first quarter.
 *
 * @param {'rss' | 'files'} name
 */
function growth(name) {
  const kept = samples.slice(Math.floor(samples.length / 4));
  /** @param {(sample: typeof kept[number]) => number} of */
  const mean = (of) => kept.reduce((sum, each) => sum + of(each), 0) / kept.length;
  const [x, y] = [mean(({ at }) => at), mean((each) => each[name])];
  const slope = mean((each) => (each.at - x) * (each[name] - y)) / mean(({ at }) => (at - x) ** 2);
  return { mean: y, hourly: slope * 3600, during: slope * (kept[kept.length - 1].at - kept[0].at) };
}
const [memory, files] = [growth('rss'), growth('files')];
process.stdout.write(`\n${[...counts].toSorted(([a], [b]) => (a < b ? -1 : 1)).map(([what, n]) => `${what}: ${n}`).join(', ')}
memory ${memory.mean.toFixed(0)} MiB, ${memory.during >= 0 ? '+' : ''}${memory.during.toFixed(1)} MiB while it was watched
files ${files.mean.toFixed(0)}, ${files.during >= 0 ? '+' : ''}${files.during.toFixed(1)} while it was watched, ${filesAtRest} at rest (${server.filesAtStart} at the start)
`); // prettier-ignore
const faults = await server.stop();
upstream.disconnect();
rmSync(folder, { recursive: true, force: true });
for (const line of [...wrong.slice(0, 10), ...faults.slice(0, 10)]) process.stdout.write(`${line}\n`);
const grows = memory.during > memory.mean * 0.1 || filesAtRest > server.filesAtStart + 10;
process.exit(grows || wrong.length > 0 || faults.length > 0 ? 1 : 0);
