import { readFileSync } from 'node:fs';
import { Agent, request, type RequestListener } from 'node:http';
import { Agent as TlsAgent, request as requestTls } from 'node:https';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import t from 'tap';
import { selfSigned } from '../helpers/certificates.js';
import { startFixture } from '../helpers/fixture.js';
import { serveHttp } from '../helpers/http.js';
import { temporaryFolder } from '../helpers/latchkey.js';
import { EVERY_CASE } from '../helpers/nightly.js';

const CLIENTS = 16;
const REQUESTS = 6;
/** Around the sizes at which reads change their buffer, and far above them. */
const SIZES = [1, 200, 5_000, 8_192, 20_000, 65_000, 65_536, 70_000, 200_000, 1_000_000];

/** A body each word of which says whose it is and where it belongs. */
function bodyOf(client: number, sequence: number, size: number): Buffer {
  const body = Buffer.alloc(size + 4);
  for (let at = 0; at < size; at += 4)
    body.writeUInt32BE(((client << 24) | (sequence << 18) | (at >> 2)) >>> 0, at);
  return body.subarray(0, size);
}

/** The same numbers in every run. */
function numbers(seed: number): () => number {
  let state = seed;
  return () => {
    state = (Math.imul(state, 1_103_515_245) + 12_345) & 0x7fff_ffff;
    return state / 0x7fff_ffff;
  };
}

/** Writes a body in pieces, with pauses, and returns what comes back, read with pauses. */
async function exchange(url: string, agent: Agent, body: Buffer, random: () => number): Promise<Buffer> {
  const isChunked = random() < 0.5;
  const headers: Record<string, string> = isChunked ? { 'Transfer-Encoding': 'chunked' } : { 'Content-Length': String(body.length) };
  const req = (url.startsWith('https:') ? requestTls : request)(url, { method: 'POST', agent, headers });
  const answer = new Promise<Buffer>((resolve, reject) => {
    req.on('error', reject).on('response', (res) => {
      const chunks: Buffer[] = [];
      const isSlow = random() < 0.3;
      res.on('data', (chunk: Buffer) => {
        chunks.push(Buffer.from(chunk));
        if (!isSlow || random() > 0.2) return;
        res.pause();
        setTimeout(() => res.resume(), 5);
      });
      res.on('end', () => resolve(Buffer.concat(chunks))).on('error', reject);
    });
  });
  const piece = [1_000, 30_000, body.length][Math.floor(random() * 3)] as number;
  for (let at = 0; at < body.length; at += piece) {
    req.write(body.subarray(at, at + piece));
    if (random() < 0.05) await sleep(2);
  }
  req.end();
  return await answer;
} // prettier-ignore

/** What of a client's exchanges came back changed. */
async function work(url: string, client: number): Promise<string[]> {
  const agent = url.startsWith('https:')
    ? new TlsAgent({ keepAlive: true, maxSockets: 1, rejectUnauthorized: false })
    : new Agent({ keepAlive: true, maxSockets: 1 });
  const random = numbers(client + 1);
  const wrong: string[] = [];
  for (let sequence = 0; sequence < REQUESTS; sequence++) {
    const size = SIZES[Math.floor(random() * SIZES.length)] as number;
    const body = bodyOf(client, sequence, size);
    const got = await exchange(url, agent, body, random);
    if (got.equals(body)) continue;
    const at = body.findIndex((byte, index) => got[index] !== byte);
    wrong.push(`client ${client}, request ${sequence}: ${got.length} of ${size} bytes, first difference at ${at}`);
  }
  agent.destroy();
  return wrong;
} // prettier-ignore

/** Sends bodies back as they come, now and then after a pause. */
function echo(): RequestListener {
  const random = numbers(99);
  return (req, res) => {
    res.writeHead(200, { 'Content-Type': 'application/octet-stream' });
    if (random() < 0.2) setTimeout(() => req.pipe(res), 10);
    else req.pipe(res);
  };
}

const folder = temporaryFolder(t);
const { cert, key } = selfSigned(folder, 'server');
const plain = { path: undefined, config: {}, server: {} };
const cases = {
  'over TCP': plain,
  'to a Unix socket': { ...plain, path: join(folder, 'echo.sock') },
  'over TLS on both sides': {
    path: undefined,
    server: { cert: readFileSync(cert), key: readFileSync(key) },
    config: { listen: { host: '127.0.0.1', port: 0, tls: { cert, key } } },
  },
};
for (const [name, { path, server, config }] of Object.entries(cases).slice(EVERY_CASE ? 0 : 2))
  t.test(`bodies of concurrent clients never mix, ${name}`, async (t) => {
    const served = (await serveHttp(t, echo(), server, path)).url;
    const echoing =
      'cert' in server ? { url: served.replace('http:', 'https:'), tls: { ca: cert } } : { url: served };
    const { url } = await startFixture(t, {
      upstream: undefined,
      // Each body of unknown length takes a new connection.
      upstreams: { echoing: { ...echoing, connect_timeout: '60s' } },
      default_route: { auth: 'none', upstream: 'echoing' },
      ...config,
    });
    const clients = Array.from({ length: CLIENTS }, (_, client) => work(url, client));
    t.same((await Promise.all(clients)).flat(), []);
  });
