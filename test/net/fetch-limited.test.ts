import type { ServerResponse } from 'node:http';
import t from 'tap';
import { ConnectionFailed } from '../../src/util/system-error.js';
import { fetchLimited } from '../../src/net/fetch-limited.js';
import { serveHttp } from '../helpers/http.js';

const SECRET = 'not-for-logs';
const LIMITS = { timeout: 60_000, maxBody: 100 };

const responses: Record<string, (response: ServerResponse) => void> = {
  '/ok': (response) => response.end('x'.repeat(100)),
  '/large': (response) => response.end('x'.repeat(101)),
  '/large-chunked': (response) => (response.write('x'.repeat(60)), response.end('x'.repeat(60))),
  '/moved': (response) => response.writeHead(302, { Location: '/ok' }).end('elsewhere'),
  '/hangs': () => undefined,
  '/hangs-in-body': (response) => void response.write('x'),
  '/closes': (response) => void response.destroy(),
  '/large-head': (response) => response.writeHead(200, { 'x-filler': 'x'.repeat(17_000) }).end(),
};

t.test('which responses are read, and why others are not', async (t) => {
  let calls = 0;
  const { url } = await serveHttp(t, (request, response) => {
    calls += 1;
    responses[new URL(request.url ?? '', 'http://x').pathname]?.(response);
  });
  const get = async (path: string, limits: object = {}) =>
    fetchLimited(`${url.replace('//', `//user:${SECRET}@`)}${path}?key=${SECRET}`, { ...LIMITS, ...limits });
  t.match(await get('/ok'), { status: 200, text: 'x'.repeat(100) });
  t.match(await get('/large', { maxBody: 0 }), { status: 200, text: '' }, 'an unread body');
  t.match(await get('/hangs-in-body', { readsBody: () => false }), { status: 200, text: '' });
  t.match(await get('/moved'), { status: 302, text: 'elsewhere' }, 'a redirect is not followed');
  t.equal(calls, 4);
  const rows: [path: string, reason: string | RegExp, limits?: object][] = [
    ['/large', /max size/],
    ['/large-chunked', /max size/],
    ['/large-head', /Headers Overflow/],
    ['/hangs', 'no complete response in time', { timeout: 50 }],
    ['/hangs-in-body', 'no complete response in time', { timeout: 50 }],
    ['/closes', 'other side closed'],
    ['/hangs', /aborted/, { signal: AbortSignal.abort() }],
  ];
  const { host } = new URL(url);
  for (const [path, reason, limits] of rows) {
    const error: unknown = await get(path, limits).catch((error: unknown) => error);
    if (!(error instanceof ConnectionFailed)) throw new Error(`${path} did not fail`);
    t.match(error, { address: host, reason }, path);
    t.notMatch(error.message, SECRET);
  }
});

t.test('a refused connection and a refused address', async (t) => {
  const { url } = await serveHttp(t, (_request, response) => void response.end('ok'));
  await t.rejects(fetchLimited(`http://127.0.0.1:1/${SECRET}`, LIMITS), {
    message: '127.0.0.1:1: connection refused (ECONNREFUSED)',
    systemCode: 'ECONNREFUSED',
  });
  const to = (address: string, allowPrivate: boolean) => ({
    ...LIMITS,
    addresses: { resolve: async () => [{ address, family: 4 }], allowPrivate },
  });
  const named = url.replace('127.0.0.1', 'name.example');
  t.match(await fetchLimited(named, to('127.0.0.1', true)), { text: 'ok' });
  for (const target of [url, named])
    await t.rejects(fetchLimited(target, to('127.0.0.1', false)), { message: /is private/ });
  await t.rejects(fetchLimited(named, to('169.254.169.254', true)), { message: /is reserved/ });
});
