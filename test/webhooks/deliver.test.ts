import { readFileSync } from 'node:fs';
import { createServer } from 'node:https';
import { createServer as createTcpServer, type Socket } from 'node:net';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import t from 'tap';
import { payloadOf } from '../../src/domain/webhook.js';
import { deliver, type Network } from '../../src/webhooks/deliver.js';
import type { WebhookEndpoint } from '../../src/webhooks/endpoint.js';
import { selfSigned } from '../helpers/certificates.js';
import { listenOnLoopback } from '../helpers/http.js';
import { temporaryFolder } from '../helpers/latchkey.js';
import { until } from '../helpers/until.js';
import { newWebhookSecret, verify, WebhookReceiver } from '../helpers/webhook-receiver.js';

const LOOPBACK: Network = { resolve: async () => [{ address: '127.0.0.1', family: 4 }] };
const never = new AbortController().signal;

function endpoint(url: string, more: Partial<WebhookEndpoint> = {}): WebhookEndpoint {
  return { id: 'e', url, secret: [newWebhookSecret()], allow_private: true, timeout: 2_000, max_attempts: 3, ...more };
} // prettier-ignore

const message = { id: 'msg_1', body: '{"type":"webhook.test","data":{"text":"ä\\u2028"}}' };

t.test('signs a message with each secret, and delivers it unchanged', async (t) => {
  const receiver = await WebhookReceiver.start(t);
  const answer = await deliver(endpoint(receiver.url, { secret: [receiver.secret, newWebhookSecret()] }), message, never);
  t.same(answer, { status: 204, error: null, retryAfter: null });
  const others = endpoint(receiver.url, { secret: [newWebhookSecret(), receiver.secret] });
  t.equal((await deliver(others, message, never)).error, null, 'the second secret is valid, too');
  t.equal((await deliver(endpoint(receiver.url), message, never)).status, 500, 'another secret does not');
  t.same(receiver.faults, ['No matching signature found']);
  t.match(receiver.received, [{ id: 'msg_1', type: 'webhook.test', data: { text: 'ä\u2028' } }, { id: 'msg_1' }]);
}); // prettier-ignore

t.test('an attempt leaves nothing in memory', async (t) => {
  setFlagsFromString('--expose-gc');
  const collect = runInNewContext('gc') as () => void;
  const receiver = await WebhookReceiver.start(t);
  const attempts: WeakRef<object>[] = [];
  const attempt = async (status: number) => {
    receiver.behaviour = (res) => res.writeHead(status).end('an answer');
    const network: Network = { resolve: async () => LOOPBACK.resolve('') };
    attempts.push(new WeakRef(network.resolve));
    await deliver(endpoint(receiver.url, { secret: [receiver.secret] }), message, never, network);
  };
  for (let i = 0; i < 10; i++) for (const status of [200, 204, 302, 410, 503]) await attempt(status);
  await until(() => {
    collect();
    return attempts.filter((each) => each.deref() !== undefined).length <= 5;
  }, 'all but the latest attempts are collected');
});

t.test('only 2xx is success, and redirects are not followed', async (t) => {
  const receiver = await WebhookReceiver.start(t);
  const other = await WebhookReceiver.start(t);
  for (const status of [200, 201, 202, 299]) {
    receiver.behaviour = (res) => res.writeHead(status).end();
    t.equal((await deliver(endpoint(receiver.url, { secret: [receiver.secret] }), message, never)).error, null, String(status));
  }
  for (const status of [300, 301, 302, 303, 307, 308, 400, 401, 404, 410, 429, 500, 503]) {
    receiver.behaviour = (res) => res.writeHead(status, { Location: other.url, 'Retry-After': '7' }).end();
    const answer = await deliver(endpoint(receiver.url, { secret: [receiver.secret] }), message, never);
    t.same(answer, { status, error: `the endpoint responded with ${status}`, retryAfter: 7_000 });
  }
  t.same([other.received, other.faults], [[], []]);
}); // prettier-ignore

t.test("reads no body, and waits no longer than the endpoint's timeout", async (t) => {
  const receiver = await WebhookReceiver.start(t);
  const to = endpoint(receiver.url, { secret: [receiver.secret], timeout: 300 });
  const timed = async () => {
    const startedAt = performance.now();
    return { answer: await deliver(to, message, never), ms: performance.now() - startedAt };
  };
  let written = 0;
  receiver.behaviour = (res) => {
    const chunk = Buffer.alloc(64 * 1024);
    res.writeHead(200);
    const more = (): void => {
      for (let goesOn = true; goesOn && !res.destroyed; written += chunk.length) goesOn = res.write(chunk);
      res.once('drain', more);
    };
    more();
  };
  t.match(await timed(), { answer: { status: 200, error: null } }, 'a body without an end');
  t.ok(written > 0 && written < 64 * 1024 * 1024, `${written} bytes were taken`);
  receiver.behaviour = () => undefined;
  const hanging = await timed();
  t.match(hanging.answer, { status: null, error: 'no response within 300 ms' });
  t.ok(hanging.ms < 1_500, `${hanging.ms} ms`);
  receiver.behaviour = (res) => res.destroy();
  t.match(await timed(), { answer: { status: null, error: /^the endpoint cannot be reached \(UND_ERR_SOCKET\)$/ } });
  receiver.behaviour = (res) => res.writeHead(200, { 'x-large': 'x'.repeat(40_000) }).end();
  t.match(await timed(), { answer: { error: 'the endpoint cannot be reached (UND_ERR_HEADERS_OVERFLOW)' } });
  t.match(await deliver(to, message, AbortSignal.abort()), { status: null }, 'aborted by the caller');
}); // prettier-ignore

t.test('a slow head ends by the timeout, and garbage is not a response', async (t) => {
  const sockets = new Set<Socket>();
  let answer = (_socket: Socket): void => undefined;
  const server = createTcpServer((socket) => {
    sockets.add(socket);
    socket.on('error', () => undefined);
    socket.once('data', () => answer(socket));
  });
  const url = await listenOnLoopback(server);
  t.teardown(() => {
    for (const socket of sockets) socket.destroy();
    server.close();
  });
  answer = (socket) => {
    socket.write('HTTP/1.1 200 OK\r\nx-slow: ');
    const timer = setInterval(() => socket.write('x'), 50);
    socket.once('close', () => clearInterval(timer));
  };
  t.match(await deliver(endpoint(url, { timeout: 400 }), message, never), {
    error: 'no response within 400 ms',
  });
  answer = (socket) => socket.end('SSH-2.0-x\r\n\r\n');
  t.match(await deliver(endpoint(url), message, never), { error: /^Response does not match the HTTP/ });
});

t.test('connects to the address that was checked, with the right name in TLS', async (t) => {
  const folder = temporaryFolder(t);
  const { cert, key } = selfSigned(folder, 'hook.example');
  const ca = readFileSync(cert, 'utf8');
  const secret = newWebhookSecret();
  const hosts: string[] = [];
  const server = createServer({ cert: ca, key: readFileSync(key) }, (req, res) => {
    const chunks: Buffer[] = [];
    req.on('data', (chunk: Buffer) => chunks.push(chunk));
    req.on('end', () => {
      verify(secret, req.headers as Record<string, string>, Buffer.concat(chunks).toString());
      hosts.push(`${req.headers.host} ${(req.socket as unknown as { servername: string }).servername}`);
      res.writeHead(200).end();
    });
  });
  const { port } = new URL(await listenOnLoopback(server));
  t.teardown(() => server.close());
  const to = (host: string, more: Partial<WebhookEndpoint> = {}) =>
    endpoint(`https://${host}:${port}/hook`, { secret: [secret], ...more });

  const answers = [['127.0.0.1'], ['10.0.0.1']];
  const rebinding: Network = {
    resolve: async () => (answers.shift() ?? ['10.0.0.1']).map((address) => ({ address, family: 4 })),
    ca,
  };
  t.equal((await deliver(to('hook.example'), message, never, rebinding)).error, null);
  t.equal(answers.length, 1, 'the name was looked up once');
  t.same(hosts, [`hook.example:${port} hook.example`]);
  const refused = await deliver(to('hook.example', { allow_private: false }), message, never, { ...LOOPBACK, ca });
  t.same(refused, { status: null, error: 'the address 127.0.0.1 is private; allow_private allows it', retryAfter: null });
  t.match(await deliver(to('127.0.0.1', { allow_private: false }), message, never, LOOPBACK), { error: /is private/ });
  t.match(await deliver(endpoint(`http://hook.example:${port}/`, { allow_private: false }), message, never, LOOPBACK), { error: 'the URL is not https://' });
  t.match(await deliver(to('other.example'), message, never, { ...LOOPBACK, ca }), { error: 'the endpoint cannot be reached (ERR_TLS_CERT_ALTNAME_INVALID)' });
  t.match(await deliver(to('hook.example'), message, never, LOOPBACK), { error: /^the endpoint cannot be reached \((DEPTH_ZERO_)?SELF_SIGNED_CERT/ }, 'an unknown authority');
  t.match(await deliver(to('hook.example'), message, never, { resolve: async () => Promise.reject(Object.assign(new Error('x'), { code: 'ENOTFOUND' })) }), { error: 'the endpoint cannot be reached (ENOTFOUND)' });
  t.equal(hosts.length, 1, 'no other host was contacted');
}); // prettier-ignore

t.test('a payload has ids and times, and nothing secret', async (t) => {
  const record = {
    id: 'T1', digest: 'DIGEST', kind: 'token', userId: 'U1', name: 'TYPED', scopes: ['global'], services: [], serviceId: null,
    createdAt: 0, updatedAt: 0, expiresAt: 86_400_000, predecessorId: 'T0', rotated: { to: 'T2' },
  }; // prettier-ignore
  const event = { id: 'msg_1', at: 1_500, subject: 'token:T1', customerId: 'C1' };
  const token = JSON.stringify(record);
  t.same(JSON.parse(payloadOf({ ...event, type: 'token.expired', token, use: '{"at":1000,"ip":"IP"}' })), {
    type: 'token.expired',
    timestamp: '1970-01-01T00:00:01.500Z',
    data: {
      token_id: 'T1', user_id: 'U1', customer_id: 'C1', scope: ['global'], services: [],
      created_at: '1970-01-01T00:00:00+00:00', expires_at: '1970-01-02T00:00:00+00:00', last_used_at: '1970-01-01T00:00:01+00:00',
      predecessor_id: 'T0', successor_id: 'T2',
    },
  }); // prettier-ignore
  t.notMatch(payloadOf({ ...event, type: 'token.created', token }), /DIGEST|TYPED|IP/);
  t.throws(() => payloadOf({ ...event, type: 'token.revoked', token: 'no JSON' }), SyntaxError, 'a damaged record');
  const locked = { userId: 'U1', reason: 'failed_logins', retryAfter: 4 } as const;
  t.same(JSON.parse(payloadOf({ ...event, type: 'login.locked', subject: 'user:U1', locked })).data, { user_id: 'U1', customer_id: 'C1', reason: 'failed_logins', retry_after: 4 });
}); // prettier-ignore
