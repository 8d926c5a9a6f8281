import { readFileSync } from 'node:fs';
import {
  type ClientDuplexStream,
  type ClientReadableStream,
  credentials,
  Metadata,
  ServerCredentials,
  type ServerDuplexStream,
  type ServiceDefinition,
  type ServiceError,
  status,
} from '@grpc/grpc-js';
import { loadSync } from '@grpc/proto-loader';
import { ReflectionService } from '@grpc/reflection';
import { HealthImplementation, service as healthDefinition } from 'grpc-health-check';
import t from 'tap';
import { selfSigned } from '../helpers/certificates.js';
import { LEGACY_KEY, startFixture } from '../helpers/fixture.js';
import {
  ECHO,
  type EchoHandlers,
  ended,
  type Message,
  metadataOf,
  openGrpc,
  openService,
  said,
  startGrpc,
} from '../helpers/grpc-echo.js';
import { send } from '../helpers/http.js';
import { temporaryFolder } from '../helpers/latchkey.js';
import { nightly } from '../helpers/nightly.js';
import { matchLog, until } from '../helpers/until.js';

const MIB = 1_048_576;

interface HealthClient {
  Check(
    asked: { service: string },
    metadata: Metadata,
    called: (error: ServiceError | null, answer: unknown) => void,
  ): void;
  Watch(asked: { service: string }, metadata: Metadata): ClientReadableStream<{ status: string }>;
}
interface ReflectionClient {
  ServerReflectionInfo(metadata: Metadata): ClientDuplexStream<object, object>;
}
const over = (call: ClientDuplexStream<object, object>) =>
  new Promise<{ code: number }>((done) => call.on('status', (end: { code: number }) => done(end)));

/** The calls that reached the server. */
const seen: { method: string; metadata: Metadata; cancelled: boolean }[] = [];
const note = (method: string, call: { metadata: Metadata; on: (event: 'cancelled', fn: () => void) => unknown }) => {
  const entry = { method, metadata: call.metadata, cancelled: false };
  seen.push(entry);
  call.on('cancelled', () => void (entry.cancelled = true));
}; // prettier-ignore
const last = () => seen.at(-1) as (typeof seen)[number];

const handlers: EchoHandlers = {
  Say: (call, callback) => {
    note('Say', call);
    const { text = '', data } = call.request;
    if (text === 'never') return;
    if (text === 'fail') {
      const metadata = metadataOf({ 'grpc-status-details-bin': Buffer.from([8, 9, 18, 2, 104, 105]), 'x-more': 'details' });
      callback({ code: status.FAILED_PRECONDITION, details: 'größer als 100 %', metadata });
      return;
    }
    const [header] = call.metadata.get('x-raw-bin');
    call.sendMetadata(metadataOf({ 'x-first': 'head', 'x-raw-bin': header ?? Buffer.from('none') }));
    callback(null, { text, ...(data === undefined ? {} : { data }) }, metadataOf({ 'x-last': 'trailer' }));
  },
  Count: (call) => {
    note('Count', call);
    const { number = 0, text } = call.request;
    const size = text === 'big' ? 65_536 : 0;
    let i = 0;
    const write = (): void => {
      while (i < number && !call.cancelled) {
        i += 1;
        if (!call.write({ number: i, data: Buffer.alloc(size) })) return void call.once('drain', write);
      }
      if (text !== 'open') call.end();
    };
    write();
  },
  Collect: (call, callback) => {
    note('Collect', call);
    let number = 0;
    let bytes = 0;
    call.on('data', ({ data }: Message) => {
      number += 1;
      bytes += data?.length ?? 0;
    });
    call.on('end', () => callback(null, { number, text: String(bytes) }));
  },
  Chat: (call: ServerDuplexStream<Message, Message>) => {
    note('Chat', call);
    call.on('data', ({ text = '' }: Message) => {
      if (text === 'slowly') for (let i = 1; i <= 6; i++) setTimeout(() => call.write({ number: i }), i * 500);
      else if (text === 'bye') call.end();
      else if (text === 'fail') call.emit('error', { code: status.ABORTED, details: 'enough' });
      else call.write({ text: `re: ${text}` });
    });
    call.on('end', () => call.end());
  },
}; // prettier-ignore

const folder = temporaryFolder(t);
const tls = selfSigned(folder, 'one');
const ca = readFileSync(tls.cert);
const healthService = new HealthImplementation({ '': 'SERVING', 'test.v1.Echo': 'NOT_SERVING' });
const plain = await startGrpc(t, handlers, ServerCredentials.createInsecure(), (server) => {
  healthService.addToServer(server);
  new ReflectionService(ECHO).addToServer(server);
});
const secure = await startGrpc(
  t,
  handlers,
  ServerCredentials.createSsl(null, [{ cert_chain: ca, private_key: readFileSync(tls.key) }]),
);
const http1 = await startFixture(t);
const { url, server, token } = await startFixture(t, {
  upstream: undefined,
  upstreams: {
    plain: { url: `http://127.0.0.1:${plain.port}`, protocol: 'h2c', response_timeout: '1s', idle_timeout: '2s' },
    secure: { url: `https://127.0.0.1:${secure.port}`, protocol: 'h2', tls: { ca: tls.cert } },
    gone: { url: 'http://127.0.0.1:1', protocol: 'h2c' },
    old: { url: http1.upstream.url, protocol: 'h2c' },
  },
  listen: { host: '127.0.0.1', port: 0, tls },
  proxy: { stream_recheck: '1s' },
  rate_limit: { writes_per_hour: 100_000 },
  routes: [
    { path: '/test.v1.Echo/*', action: 'api', upstream: 'plain' },
    { path: '/secure/*', action: 'api', upstream: 'secure', strip_prefix: '/secure' },
    { path: '/gone/*', action: 'api', upstream: 'gone', strip_prefix: '/gone' },
    { path: '/old/*', action: 'api', upstream: 'old', strip_prefix: '/old' },
    { path: '/denied/*', auth: 'deny' },
  ],
  default_route: { action: 'api', upstream: 'plain' },
}); // prettier-ignore
const address = url.replace('127.0.0.1', 'localhost');
const client = openGrpc(t, address, credentials.createSsl(ca));
const key = () => metadataOf({ 'service-key': LEGACY_KEY });

t.test('unary calls with metadata both ways', async (t) => {
  const metadata = key();
  metadata.set('x-raw-bin', Buffer.from([0, 255, 10]));
  const call = client.Say({ text: 'hello' }, metadata, {}, () => undefined);
  const { status: end, metadata: head } = await new Promise<{ status: { code: number; metadata: Metadata }; metadata: Metadata }>((done) => {
    let got = new Metadata();
    call.on('metadata', (each: Metadata) => (got = each)).on('status', (each) => done({ status: each, metadata: got }));
  });
  t.equal(end.code, status.OK);
  t.strictSame(head.get('x-first'), ['head']);
  t.strictSame(head.get('x-raw-bin'), [Buffer.from([0, 255, 10])]);
  t.strictSame(end.metadata.get('x-last'), ['trailer']);
  t.match(await said(client, { text: 'again' }, key()), { text: 'again' });
}); // prettier-ignore

t.test('errors', async (t) => {
  const error = (await said(client, { text: 'fail' }, key())) as ServiceError;
  t.match(error, { code: status.FAILED_PRECONDITION, details: 'größer als 100 %' });
  t.strictSame(error.metadata.get('grpc-status-details-bin'), [Buffer.from([8, 9, 18, 2, 104, 105])]);
  t.strictSame(error.metadata.get('x-more'), ['details']);
});

t.test('streams', async (t) => {
  const { messages, status: end } = await ended(client.Count({ number: 50 }, key()));
  t.equal(end.code, status.OK);
  t.strictSame(messages.map(({ number }) => number), Array.from({ length: 50 }, (_, i) => i + 1));
  const collected = await new Promise<Message | ServiceError>((done) => {
    const call = client.Collect(key(), {}, (error, answer) => done(error ?? answer ?? {}));
    for (let i = 0; i < 20; i++) call.write({ data: Buffer.alloc(100_000) });
    call.end();
  });
  t.match(collected, { number: 20, text: '2000000' });
}); // prettier-ignore

t.test('both sides send at the same time', async (t) => {
  const call = client.Chat(key());
  const heard: (string | undefined)[] = [];
  call.on('data', ({ text }: Message) => heard.push(text));
  for (const text of ['one', 'two', 'three']) {
    call.write({ text });
    await until(() => heard.at(-1) === `re: ${text}`, `an answer to ${text}`);
  }
  // The server ends the call while the client could still send.
  const over = ended(call);
  call.write({ text: 'bye' });
  t.equal((await over).status.code, status.OK);
  const failing = client.Chat(key());
  const failed = ended(failing);
  failing.write({ text: 'fail' });
  t.match((await failed).status, { code: status.ABORTED, details: 'enough' });
});

t.test('cancelling', async (t) => {
  const call = client.Chat(key());
  const over = ended(call);
  call.write({ text: 'x' });
  await until(() => last().method === 'Chat', 'it started');
  call.cancel();
  t.equal((await over).status.code, status.CANCELLED);
  await until(() => last().cancelled, 'the server notices');
  const late = (await said(client, { text: 'never' }, key(), { deadline: Date.now() + 200 })) as ServiceError;
  t.equal(late.code, status.DEADLINE_EXCEEDED);
  t.ok(last().metadata.get('grpc-timeout').length <= 1);
  await until(() => last().cancelled, 'the deadline reaches the server');
});

t.test('large messages and slow readers', async (t) => {
  const data = Buffer.alloc(4 * MIB - 100, 7);
  const same = (await said(client, { data }, key())) as Message;
  t.ok(data.equals(same.data ?? Buffer.alloc(0)));
  const call = client.Count({ number: 200, text: 'big' }, key());
  let count = 0;
  call.on('data', () => {
    count += 1;
    if (count % 50 !== 0) return;
    call.pause();
    setTimeout(() => call.resume(), 100);
  });
  t.equal((await ended(call)).status.code, status.OK);
  t.equal(count, 200);
});

t.test('many concurrent calls', nightly, async (t) => {
  const all = await Promise.all(Array.from({ length: 300 }, (_, i) => said(client, { text: `n${i}` }, key())));
  t.strictSame(all.map((each) => (each as Message).text), all.map((_, i) => `n${i}`));
}); // prettier-ignore

t.test('identity of the caller', async (t) => {
  const metadata = metadataOf({ 'service-key': await token('engineer'), 'x-auth-role': 'forged', x_auth_role: 'forged' });
  await said(client, { text: 'x' }, metadata);
  const got = last().metadata.getMap();
  t.match(got, { 'x-auth-customer-id': 'C1', 'x-auth-role': 'engineer' });
  t.notMatch(JSON.stringify(got), 'forged');
  t.notOk('service-key' in got);
}); // prettier-ignore

/** A client for Latchkey with the path of a route as prefix. */
const at = (path: string) => openGrpc(t, address, credentials.createSsl(ca), path);

t.test('TLS to the upstream', async (t) => {
  t.match(await said(at('/secure'), { text: 'x' }, key()), { text: 'x' });
});

t.test('refused calls', async (t) => {
  const unauthenticated = (await said(client, { text: 'x' }, new Metadata())) as ServiceError;
  t.match(unauthenticated, { code: status.UNAUTHENTICATED, details: 'Provided credentials are missing or invalid' });
  t.match(unauthenticated.metadata.getMap(), { 'www-authenticate': /./, 'x-request-id': /./ });
  t.match(await said(client, { text: 'x' }, metadataOf({ 'service-key': await token('user') })), { code: status.PERMISSION_DENIED });
  t.match(await said(at('/denied'), { text: 'x' }, key()), { code: status.UNIMPLEMENTED });
  t.match(await said(at('/gone'), { text: 'x' }, key()), { code: status.UNAVAILABLE, details: 'Bad gateway: The upstream cannot be reached' });
  t.match(await said(client, { text: 'never' }, key()), { code: status.UNAVAILABLE, details: /no response within upstreams\.plain\.response_timeout \(1s\)/ });
  t.match(await said(at('/old'), { text: 'x' }, key()), { code: status.UNAVAILABLE });
  await until(() => server.stdout().includes('NOT_HTTP2'), 'the log has the reason');
  await matchLog(t, server, /does not speak HTTP\/2: .*; if it speaks HTTP\/1\.1, set protocol: http1/);
}); // prettier-ignore

t.test('a stream ends when its credential ends', async (t) => {
  const credential = { 'service-key': await token('engineer') };
  const call = client.Chat(metadataOf(credential));
  const over = ended(call);
  call.write({ text: 'x' });
  await until(() => last().method === 'Chat', 'it started');
  const unanswered = said(client, { text: 'never' }, metadataOf(credential));
  await until(() => last().method === 'Say', 'it started');
  const ending = { method: 'DELETE', headers: { 'Service-Key': credential['service-key'] } };
  t.match(await send(url, '/tokens/self', ending), { status: 204 });
  const { messages, status: end } = await over;
  t.match(end, { code: status.UNAUTHENTICATED, details: 'Provided credentials are missing or invalid' });
  t.equal(messages.length, 1);
  t.match(await unanswered, { code: status.UNAUTHENTICATED });
});

t.test('timeouts', async (t) => {
  // A client may be idle while the server sends, even for longer than response_timeout.
  const call = client.Chat(key());
  const over = ended(call);
  const before = performance.now();
  call.write({ text: 'slowly' });
  const { messages, status: end } = await over;
  t.equal(messages.length, 6);
  t.match(end, { code: status.UNAVAILABLE, details: /no data within upstreams\.plain\.idle_timeout \(2s\)/ });
  t.ok(performance.now() - before > 4_000, 'two seconds after the last message');
  // No timeout applies while the client is sending.
  const answer = await new Promise<Message | ServiceError>((done) => {
    const collect = client.Collect(key(), {}, (error, got) => done(error ?? got ?? {}));
    let left = 6;
    const timer = setInterval(() => {
      collect.write({ text: 'x' });
      left -= 1;
      if (left > 0) return;
      clearInterval(timer);
      collect.end();
    }, 400);
  });
  t.match(answer, { number: 6 });
});

t.test('health service', async (t) => {
  const service = openService(
    t,
    address,
    credentials.createSsl(ca),
    healthDefinition,
  ) as unknown as HealthClient;
  const check = (name: string) =>
    new Promise((done) => service.Check({ service: name }, key(), (error, answer) => done(error ?? answer)));
  t.match(await check(''), { status: 'SERVING' });
  t.match(await check('test.v1.Echo'), { status: 'NOT_SERVING' });
  t.match(await check('unknown'), { code: status.NOT_FOUND });
  const watched = service.Watch({ service: '' }, key());
  const states: string[] = [];
  watched.on('data', (state: { status: string }) => states.push(state.status)).on('error', () => undefined);
  await until(() => states.at(-1) === 'SERVING', 'the first status');
  healthService.setStatus('', 'NOT_SERVING');
  await until(() => states.at(-1) === 'NOT_SERVING', 'the second status');
  watched.cancel();
});

t.test('reflection service', async (t) => {
  const definition = loadSync('grpc/reflection/v1/reflection.proto', {
    includeDirs: ['node_modules/@grpc/reflection/build/proto'],
    keepCase: true,
  })['grpc.reflection.v1.ServerReflection'] as ServiceDefinition;
  const service = openService(
    t,
    address,
    credentials.createSsl(ca),
    definition,
  ) as unknown as ReflectionClient;
  const call = service.ServerReflectionInfo(key());
  const answers: unknown[] = [];
  call.on('data', (answer) => answers.push(answer)).on('error', () => undefined);
  call.write({ list_services: '*' });
  await until(() => answers.length === 1, 'the services');
  t.match(JSON.stringify(answers[0]), 'test.v1.Echo');
  call.write({ file_containing_symbol: 'test.v1.Echo' });
  await until(() => answers.length === 2, 'the file');
  t.match(answers[1], { file_descriptor_response: {} });
  call.end();
  t.equal((await over(call)).code, status.OK);
});
