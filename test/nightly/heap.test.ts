import {
  closeSync,
  fstatSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  readSync,
  rmSync,
} from 'node:fs';
import { Agent as PlainAgent, request as requestPlain } from 'node:http';
import { Agent as TlsAgent, request as requestTls } from 'node:https';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import t from 'tap';
import { newAccessToken } from '../../src/domain/secret.js';
import { selfSigned } from '../helpers/certificates.js';
import { directory, LEGACY_KEY, PASSWORD } from '../helpers/fixture.js';
import { serveHttp, startUpstream } from '../helpers/http.js';
import { openHttp2, sendHttp2 } from '../helpers/http2.js';
import { start, temporaryFolder, writeConfig } from '../helpers/latchkey.js';
import { until } from '../helpers/until.js';

/*
 * The plain value of a secret exists only while its request is served: a while later, nothing in
 * the heap refers to it, although the connections of the clients stay open.
 */

/** Longer than any connection remembers its last request. */
const IDLE_MS = 4_000;

/** A snapshot takes three seconds of processor time. */
const SNAPSHOT_MS = 120_000;

const folder = temporaryFolder(t);
const diagnostics = join(folder, 'diagnostics');
mkdirSync(diagnostics);
const tls = selfSigned(folder, 'a.example');
const silent = await serveHttp(t, () => undefined);
const config = {
  listen: { host: '127.0.0.1', port: 0, tls },
  decision: { host: '127.0.0.1', port: 0 },
  upstreams: { api: { url: (await startUpstream(t)).url }, silent: { url: silent.url } },
  default_route: { upstream: 'api' },
  identity: { forward_credentials: true },
  routes: [{ path: '/silent', auth: 'none', upstream: 'silent' }],
};
const env = { NODE_OPTIONS: `--heapsnapshot-signal=SIGUSR2 --diagnostic-dir=${diagnostics}` };
const { url, decision, pid } = await start(t, writeConfig(folder, config, await directory()), { env });
const session = await openHttp2(t, url);
const plain = new PlainAgent({ keepAlive: true });
const encrypted = new TlsAgent({ keepAlive: true, rejectUnauthorized: false });
t.teardown(() => [plain, encrypted].forEach((agent) => agent.destroy()));

/** Returns the texts in the heap of the server: the first 1,024 characters of each. */
async function readHeap(): Promise<string> {
  process.kill(pid, 'SIGUSR2');
  let file = '';
  await until(
    () => {
      file = join(diagnostics, readdirSync(diagnostics)[0] ?? '');
      return file !== diagnostics && tailOf(file).endsWith(']}');
    },
    'a heap snapshot',
    SNAPSHOT_MS,
  );
  const text = readFileSync(file, 'utf8');
  // It holds the key of the certificate.
  rmSync(file);
  return text;
}

function tailOf(file: string): string {
  const descriptor = openSync(file, 'r');
  const tail = Buffer.alloc(8);
  const length = readSync(descriptor, tail, 0, 8, Math.max(0, fstatSync(descriptor).size - 8));
  closeSync(descriptor);
  return tail.toString('latin1', 0, length).trimEnd();
}

/** A part of a head that the store remembers must not keep the whole head. */
const USER_AGENT = { 'User-Agent': 'a client with a long name/1.0' };

/** Sends a request on a connection that stays open afterwards. */
function ask(target: string, headers: Record<string, string>, body?: string): Promise<{ status: number; cookie: string; text: string }> {
  return new Promise((resolve, reject) => {
    const options = { method: body === undefined ? 'GET' : 'POST', headers: { ...headers, ...USER_AGENT } };
    const asked = target.startsWith('https:')
      ? requestTls(target, { ...options, agent: encrypted })
      : requestPlain(target, { ...options, agent: plain });
    asked.on('error', reject).on('response', (res) => {
      const cookie = res.headers['set-cookie']?.[0]?.split(';', 1)[0] ?? '';
      let text = '';
      res.on('data', (chunk: Buffer) => (text += chunk.toString()));
      res.on('end', () => resolve({ status: res.statusCode ?? 0, cookie, text }));
    });
    asked.end(body);
  });
} // prettier-ignore

const FORM = { 'Content-Type': 'application/x-www-form-urlencoded' };

/** Creates a token and returns it. */
async function newToken(): Promise<string> {
  const body = new URLSearchParams({ username: 'engineer@example.com', password: PASSWORD });
  return JSON.parse((await ask(`${url}/tokens`, FORM, body.toString())).text).access_token;
}

t.test('secrets leave the heap after their requests', async (t) => {
  const [key, bearer, onStream, decided] = [await newToken(), await newToken(), await newToken(), await newToken()];
  const [query, unknown, unknownOnStream, inProgress] = [newAccessToken(), newAccessToken(), newAccessToken(), newAccessToken()];
  const login = new URLSearchParams({ user: 'engineer@example.com', password: PASSWORD });
  const { cookie } = await ask(`${url}/login`, FORM, login.toString());
  const original = { 'X-Original-Method': 'GET', 'X-Original-URI': '/x', 'Service-Key': decided };
  // At the same time, so that each has a connection of its own.
  const replies = await Promise.all([
    ask(`${url}/x?secret=${query}`, { 'Service-Key': key }),
    ask(`${url}/x`, { Authorization: `Bearer ${bearer}` }),
    ask(`${url}/x`, { Cookie: cookie }),
    ask(`${url}/service/SVC1`, { 'Service-Key': LEGACY_KEY }),
    ask(`${decision}/auth-request`, original),
    sendHttp2(session, '/x', { headers: { 'Service-Key': onStream } }),
    ask(`${url}/x`, { 'Service-Key': unknown }),
    sendHttp2(session, '/x', { headers: { 'Service-Key': unknownOnStream } }),
  ]);
  t.same(replies.map(({ status }) => status), [200, 200, 200, 200, 200, 200, 401, 401]);
  ask(`${url}/silent`, { 'Service-Key': inProgress }).catch(() => undefined);
  await sleep(IDLE_MS);
  const heap = await readHeap();
  t.ok(heap.includes(inProgress), 'the search finds a request in progress');
  const gone = { key, bearer, onStream, decided, query, unknown, unknownOnStream, cookie: cookie.split('=')[1] ?? '', password: PASSWORD, legacy: LEGACY_KEY };
  for (const [name, secret] of Object.entries(gone)) t.notOk(secret === '' || heap.includes(secret), name);
}); // prettier-ignore
