import { EventEmitter } from 'node:events';
import type { IncomingMessage } from 'node:http';
import type { Socket } from 'node:net';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { CHUNKED } from '../../src/http1/write.js';
import { Address } from '../../src/upstream/address.js';
import { type ForwardRequest, requestTo } from '../../src/upstream/forward.js';
import {
  type ResponseHandler,
  Upload,
  type UpstreamExchange,
  type UpstreamRequest,
} from '../../src/upstream/upstream-request.js';
import { serveTcp } from '../helpers/http.js';
import { temporaryFolder } from '../helpers/latchkey.js';
import { GET } from '../helpers/upstream-request.js';
import { until } from '../helpers/until.js';

const OK = 'HTTP/1.1 200 OK\r\nContent-Length: 2\r\nX-A: b\r\n\r\nok';

const KINDS = ['TCP', 'a Unix socket'] as const;
type Kind = (typeof KINDS)[number];

/** Records the outcome of a request. */
class Recorder implements ResponseHandler {
  connection: UpstreamExchange | undefined;
  body = '';
  status = 0;
  fields: readonly string[] = [];
  informational = 0;
  /** How often what had arrived with the head was passed on. */
  readEnds = 0;
  ended: () => void = () => undefined;
  readonly over: Promise<string>;
  #done: (how: string) => void = () => undefined;

  constructor() {
    this.over = new Promise((done) => (this.#done = done));
  }

  onRequestStart(): void {}

  onInformational(): void {
    this.informational += 1;
  }

  onReadEnd(): void {
    this.readEnds += 1;
  }

  onResponseStart(status: number, _reason: string, fields: readonly string[]): void {
    this.status = status;
    this.fields = fields;
  }

  onResponseData(chunk: Buffer): void {
    this.body += chunk.toString('latin1');
  }

  onResponseEnd(trailers: readonly string[]): void {
    this.ended();
    this.#done(`${this.status} ${this.body} ${trailers.join()}`.trim());
  }

  onResponseError(error: Error): void {
    this.#done(error.message);
  }
}

/** Starts an upstream that handles each connection as the test says, and an address for it. */
async function startUpstream(
  t: Test,
  kind: Kind,
  serve: (socket: Socket, request: string, index: number) => void,
) {
  const sockets: Socket[] = [];
  const requests: string[] = [];
  const { url: serverUrl } = await serveTcp(t, (socket) => {
    const index = sockets.push(socket) - 1;
    socket.on('data', (bytes) => {
      requests.push(bytes.toString('latin1'));
      serve(socket, bytes.toString('latin1'), index);
    });
  }, kind === 'TCP' ? undefined : join(temporaryFolder(t), 'socket'));
  const address = new Address(serverUrl, { connect_timeout: 2_000, tls: null });
  t.teardown(() => address.pool.destroy());
  const send = (request: Partial<UpstreamRequest> = {}) => {
    const recorder = new Recorder();
    address.pool.dispatch({ ...GET, ...request }, recorder);
    return recorder;
  };
  return { sockets, requests, send };
} // prettier-ignore

/** Runs a test with each kind of upstream. */
function overEach(name: string, test: (t: Test, kind: Kind) => Promise<void>): void {
  for (const kind of KINDS) t.test(`${name}, over ${kind}`, (t) => test(t, kind));
}

overEach('a response is the same wherever the network cuts it', async (t, kind) => {
  const text = 'HTTP/1.1 103 Early\r\nX: 1\r\n\r\nHTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2;a=b\r\nok\r\n1\r\n!\r\n0\r\nX-T: t\r\n\r\n';
  let cut = 0;
  const { sockets, send } = await startUpstream(t, kind, (socket) => {
    socket.setNoDelay();
    socket.write(text.slice(0, cut));
    setTimeout(() => socket.write(text.slice(cut)), 2);
  });
  for (cut = 1; cut < text.length; cut++) {
    const recorder = send();
    t.equal(await recorder.over, '200 ok! X-T,t', `cut at ${cut}`);
    t.equal(recorder.informational, 1);
  }
  t.equal(sockets.length, 1, 'on one connection');
}); // prettier-ignore

overEach('reports once what arrived with a head, unless it was the whole response', async (t, kind) => {
  let sending = '';
  const { sockets, send } = await startUpstream(t, kind, (socket) => {
    socket.setNoDelay();
    socket.write(sending);
  });
  for (const [start, rest, expected] of [
    [OK, '', 0],
    ['HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n', 'ok', 1],
    ['HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\no', 'k', 1],
    ['HTTP/1.1 103 Early\r\n\r\nHTTP/1.1 200 OK\r\n', 'Content-Length: 2\r\n\r\nok', 0],
  ] as const) {
    sending = start;
    const first = send();
    // Sent on the same connection, within the call that ends the first response.
    const second = new Promise<Recorder>((done) => (first.ended = () => done(send())));
    if (rest !== '') {
      await until(() => first.readEnds + first.informational > 0, 'the start arrived');
      sending = OK;
      sockets[0]?.write(rest);
    } else sending = OK;
    t.equal(await (await second).over, '200 ok');
    t.equal(first.readEnds, expected, start + rest);
    t.equal((await second).readEnds, 0, 'not for the request after it');
  }
  t.equal(sockets.length, 1);
}); // prettier-ignore

overEach('reuses a connection for requests one after another', async (t, kind) => {
  const { sockets, send } = await startUpstream(t, kind, (socket) => socket.write(OK));
  await Promise.all([send().over, send().over, send().over]);
  t.equal(sockets.length, 3);
  const used = sockets.map(({ bytesRead }) => bytesRead);
  for (let i = 0; i < 5; i++) await send().over;
  t.equal(sockets.length, 3);
  t.equal(sockets.filter(({ bytesRead }, i) => bytesRead > (used[i] ?? 0)).length, 1);
});

for (const [about, surplus, delay] of [
  ['in the same packet', 'HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil', 0],
  ['later', 'HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil', 20],
  ['one byte', 'x', 0],
] as const) {
  overEach(`bytes after a response never answer another request: ${about}`, async (t, kind) => {
    const { sockets, send } = await startUpstream(t, kind, (socket, _, index) => {
      if (index > 0) socket.write(OK);
      else if (delay === 0) socket.write(OK + surplus);
      else {
        socket.write(OK);
        setTimeout(() => socket.write(surplus), delay);
      }
    });
    t.equal(await send().over, '200 ok');
    await until(() => sockets[0]?.readyState === 'closed', 'that connection is closed');
    t.equal(await send().over, '200 ok');
    t.equal(sockets.length, 2);
  });
}

for (const [about, answer, persists] of [
  ['a plain response', OK, true],
  ['Connection: close', OK.replace('X-A: b', 'Connection: close'), false],
  ['HTTP/1.0', OK.replace('1.1', '1.0'), false],
  ['HTTP/1.0 with keep-alive', OK.replace('1.1', '1.0').replace('X-A: b', 'Connection: keep-alive'), true],
  ['a Keep-Alive that is about to end', OK.replace('X-A: b', 'Keep-Alive: timeout=2'), false],
  ['a long Keep-Alive', OK.replace('X-A: b', 'keep-alive: max=9, timeout=90'), true],
  ['a 204 with a length', 'HTTP/1.1 204 No\r\nContent-Length: 2\r\n\r\n', false],
] as const) {
  overEach(`whether a connection is reused after ${about}`, async (t, kind) => {
    const { sockets, send } = await startUpstream(t, kind, (socket) => socket.write(answer));
    await send().over;
    await send().over;
    t.equal(sockets.length, persists ? 1 : 2);
  });
}

overEach('a request aborted before its connection is open leaves the connection to the next one', async (t, kind) => {
  const { sockets, requests, send } = await startUpstream(t, kind, (socket) => socket.write(OK));
  const first = send({ target: '/first' });
  first.connection?.abort(new Error('given up'));
  t.equal(await first.over, 'given up');
  t.equal(await send({ target: '/second' }).over, '200 ok');
  t.equal(sockets.length, 1);
  t.notMatch(requests.join(), /first/);
}); // prettier-ignore

overEach('reports broken responses', async (t, kind) => {
  const cases: readonly [string, (socket: Socket) => void, RegExp][] = [
    ['the upstream closes at once', (socket) => socket.destroy(), /the upstream closed the connection|ECONNRESET/],
    ['it ends in the head', (socket) => socket.end('HTTP/1.1 2'), /the upstream closed the connection/],
    ['it ends in the body', (socket) => socket.end(OK.slice(0, -1)), /the upstream closed the connection/],
    ['a bare line feed', (socket) => socket.write('HTTP/1.1 200 OK\n\n'), /malformed response: line_end at byte 15/],
    ['an unsolicited protocol switch', (socket) => socket.write('HTTP/1.1 101 Switching\r\n\r\n'), /unexpected_switch/],
    ['an endless head', (socket) => socket.write(`HTTP/1.1 200 OK\r\nX: ${'x'.repeat(70_000)}`), /head_too_large/],
  ];
  for (const [about, serve, message] of cases) {
    const { sockets, send } = await startUpstream(t, kind, serve);
    t.match(await send().over, message, about);
    await until(() => sockets.every(({ readyState }) => readyState === 'closed'), 'its connection is closed');
  }
}); // prettier-ignore

/** Creates a body that a test sends chunk by chunk. */
function body(t: Test, length: number, uploadBroken: () => void = () => undefined) {
  const client = Object.assign(new EventEmitter(), { pause: () => client, resume: () => client, isPaused: () => false });
  const owner = { isAnswering: false, uploadStarted: () => undefined, uploadTaken: () => undefined, uploadIdle: () => undefined, uploadBroken };
  const upload = new Upload(client as unknown as IncomingMessage, owner, length, 60_000);
  t.teardown(() => upload.destroy());
  return { client, upload };
} // prettier-ignore

overEach('a body is complete for the upstream only if its length matches and it has ended', async (t, kind) => {
  for (const [about, length, pieces, seen] of [
    ['as long', 6, ['abc', 'def'], 'abcdef'],
    ['in chunks', CHUNKED, ['abc', 'def'], '3\r\nabc\r\n3\r\ndef\r\n0\r\n\r\n'],
  ] as const) {
    const { requests, send } = await startUpstream(t, kind, (socket, request) => {
      if (request.endsWith('def') || request.endsWith('0\r\n\r\n')) socket.write(OK);
    });
    const { client, upload } = body(t, length);
    const recorder = send({ method: 'POST', body: upload, length });
    await until(() => requests.length > 0, 'the head is there');
    for (const piece of pieces) {
      client.emit('data', Buffer.from(piece));
      await new Promise((done) => setTimeout(done, 20));
    }
    t.notOk(requests.join('').endsWith(seen), `${about}: not before its end`);
    client.emit('end');
    t.equal(await recorder.over, '200 ok', about);
    t.ok(requests.join('').endsWith(`\r\n\r\n${seen}`), about);
  }
  for (const [about, pieces] of [
    ['too short', ['abc']],
    ['too long', ['abcdefg']],
    ['too long, in another chunk', ['abcdef', 'g']],
  ] as const) {
    const { requests, send } = await startUpstream(t, kind, () => undefined);
    const { client, upload } = body(t, 6, () => recorder.connection?.abort(new Error('of another length')));
    const recorder = send({ method: 'POST', body: upload, length: 6 });
    await until(() => requests.length > 0, 'the head is there');
    for (const piece of pieces) client.emit('data', Buffer.from(piece));
    client.emit('end');
    t.match(await recorder.over, /of another length/, about);
    t.notMatch(requests.join(''), /abcdef/, about);
  }
}); // prettier-ignore

overEach('a response before the end of the request body closes the connection', async (t, kind) => {
  const { sockets, send } = await startUpstream(t, kind, (socket) => socket.write(OK));
  const { upload } = body(t, 6);
  t.equal(await send({ method: 'POST', body: upload, length: 6 }).over, '200 ok');
  await until(() => sockets[0]?.readyState === 'closed', 'it is closed');
  t.equal(await send().over, '200 ok');
});

overEach('a response is read although the upstream no longer accepts the request body', async (t, kind) => {
  const piece = Buffer.alloc(64 * 1_024, 'x');
  // A TCP connection that is reset loses what its window had no room for.
  for (const size of [2, kind === 'TCP' ? 20_000 : 150_000]) {
    const { client, upload } = body(t, CHUNKED);
    const { requests, send } = await startUpstream(t, kind, (socket) => {
      if (requests.length !== 2) return;
      socket.write(`HTTP/1.1 413 No\r\nContent-Length: ${size}\r\n\r\n${'y'.repeat(size)}`);
      // Most of the body is unread, so the connection is reset, and the next writes fail at once.
      socket.destroy();
      for (let i = 0; i < 3; i++) client.emit('data', piece);
    });
    const recorder = send({ method: 'POST', body: upload, length: CHUNKED });
    await until(() => requests.length > 0, 'the head is there');
    for (let i = 0; i < 3; i++) client.emit('data', piece);
    t.equal(await recorder.over, `413 ${'y'.repeat(size)}`, `${size} bytes`);
  }
});

t.test('a connection that carried NTLM or Negotiate serves no other request', async (t) => {
  const ok = (fields: string) => `HTTP/1.1 200 OK\r\n${fields}Content-Length: 0\r\n\r\n`;
  const asks = (challenge: string) => ok(`WWW-Authenticate: ${challenge}\r\n`).replace('200 OK', '401 No');
  const rows: readonly [about: string, fields: readonly string[], answer: string, isKept: boolean][] = [
    ['no credentials', [], ok(''), true],
    ['Basic', ['Authorization', 'Basic eDp5'], ok(''), true],
    ['Bearer', ['authorization', 'Bearer negotiate'], ok(''), true],
    ['NTLM', ['Authorization', 'NTLM TlRMTVNTUAAB'], ok(''), false],
    ['Negotiate in any case', ['authorization', 'NEGOTIATE YIIG'], ok(''), false],
    ['a second field', ['Authorization', 'Basic eDp5', 'Authorization', 'Negotiate YIIG'], ok(''), false],
    ['a list', ['Authorization', 'Basic eDp5, NTLM x'], ok(''), false],
    ['the challenge Basic', [], asks('Basic realm="ntlm, negotiations"'), true],
    ['the challenge NTLM', [], asks('NTLM'), false],
    ['a challenge of a handshake', [], asks('Basic realm="x", Negotiate YIIG'), false],
    ['two challenges', [], asks('Basic realm="x"\r\nWWW-Authenticate: ntlm'), false],
    ['another field', ['X-Authorization', 'NTLM x'], ok('X-WWW-Authenticate: NTLM\r\n'), true],
  ];
  const address = { prefix: '', host: 'x' } as Address;
  const upstream = { hostFor: () => undefined };
  for (const [about, fields, answer, isKept] of rows) {
    const { sockets, send } = await startUpstream(t, 'TCP', (socket) => socket.write(answer));
    const request = { head: { method: 'GET' }, target: '/', fields: [...fields], upstream };
    await send(requestTo(address, request as unknown as ForwardRequest, undefined)).over;
    await send().over;
    t.equal(sockets.length, isKept ? 1 : 2, about);
  }
}); // prettier-ignore
