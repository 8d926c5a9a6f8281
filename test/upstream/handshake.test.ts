import { createHash } from 'node:crypto';
import t from 'tap';
import type { RequestHead } from '../../src/http/head.js';
import { handshakeResponseFault, refusedResponse, refuseHandshake } from '../../src/upstream/handshake.js';

const KEY = 'dGhlIHNhbXBsZSBub25jZQ==';
/** The example of RFC 6455 1.3. */
const ACCEPT = 's3pPLMBiTxaQ9kYGzzhZRbK+xOo=';
const SENT = ['Sec-WebSocket-Version', '13', 'Sec-WebSocket-Key', KEY];
const without = (fields: readonly string[], left: string) =>
  fields.filter((_, i) => fields[i - (i % 2)] !== left);

t.test('a handshake is a GET without a body, with the version and one key', async (t) => {
  const rows: readonly [string, Partial<RequestHead>, RegExp | undefined][] = [
    ['a handshake', {}, undefined],
    ['a length of zero', { fields: [...SENT, 'Content-Length', '0'], hasBody: false }, undefined],
    ['HEAD', { method: 'HEAD' }, /is a GET/],
    ['a length', { hasBody: true }, /no body/],
    ['no version', { fields: without(SENT, 'Sec-WebSocket-Version') }, /must be 13/],
    ['another version', { fields: ['Sec-WebSocket-Version', '8', 'Sec-WebSocket-Key', KEY] }, /must be 13/],
    ['two versions', { fields: [...SENT, 'Sec-WebSocket-Version', '13'] }, /must be 13/],
    ['no key', { fields: without(SENT, 'Sec-WebSocket-Key') }, /16 bytes/],
    ['two keys', { fields: [...SENT, 'Sec-WebSocket-Key', KEY] }, /16 bytes/],
    ...['', KEY.slice(4), `AAAA${KEY}`, KEY.slice(0, -1), KEY.replace('==', 'aa'), KEY.replace('d', '-')].map(
      (key): [string, Partial<RequestHead>, RegExp] => [
        `the key "${key}"`,
        { fields: ['Sec-WebSocket-Version', '13', 'Sec-WebSocket-Key', key] },
        /16 bytes/,
      ],
    ),
  ];
  for (const [about, part, wanted] of rows) {
    const head = { method: 'GET', fields: SENT, hasBody: false, ...part } as unknown as RequestHead;
    const refusal = refuseHandshake(head);
    if (wanted === undefined) t.equal(refusal, undefined, about);
    else t.match(refusal, { refusal: 'malformed', detail: wanted }, about);
  }
});

t.test('a 101 opens a WebSocket only if it follows from the handshake', async (t) => {
  t.equal(createHash('sha1').update(`${KEY}258EAFA5-E914-47DA-95CA-C5AB0DC85B11`).digest('base64'), ACCEPT);
  const opened = ['Upgrade', 'websocket', 'Connection', 'Upgrade', 'Sec-WebSocket-Accept', ACCEPT];
  const offers = [...SENT, 'Sec-WebSocket-Protocol', 'a, b', 'Sec-WebSocket-Protocol', 'C', 'Sec-WebSocket-Extensions', 'x; p="1", y', 'Sec-WebSocket-Extensions', 'z'];
  const protocol = (value: string) => [...opened, 'Sec-WebSocket-Protocol', value];
  const extensions = (...values: string[]) => [...opened, ...values.flatMap((value) => ['Sec-WebSocket-Extensions', value])];
  const rows: readonly [string, readonly string[], RegExp | undefined][] = [
    ['nothing chosen', opened, undefined],
    ['another letter case', ['UPGRADE', 'WebSocket', 'connection', 'UPGRADE', 'sec-websocket-accept', ACCEPT], undefined],
    ['more options', [...without(opened, 'Connection'), 'Connection', 'keep-alive', 'Connection', 'x ,upgrade'], undefined],
    ['no Upgrade', without(opened, 'Upgrade'), /^Upgrade/],
    ['Upgrade twice', [...opened, 'Upgrade', 'websocket'], /^Upgrade/],
    ['no Connection', without(opened, 'Connection'), /^Connection/],
    ['another option', [...without(opened, 'Connection'), 'Connection', 'upgrades'], /^Connection/],
    ['a trailer', [...opened, 'Trailer', ''], /is not allowed$/],
    ['no accept', without(opened, 'Sec-WebSocket-Accept'), /^Sec-WebSocket-Accept/],
    ['two accepts', [...opened, 'Sec-WebSocket-Accept', ACCEPT], /^Sec-WebSocket-Accept/],
    ['the accept in another letter case', [...without(opened, 'Sec-WebSocket-Accept'), 'Sec-WebSocket-Accept', ACCEPT.toLowerCase()], /^Sec-WebSocket-Accept/],
    ...['a', 'b', 'C'].map((name): [string, string[], undefined] => [`the protocol ${name}`, protocol(name), undefined]),
    ...['', 'c', 'a, b', 'd'].map((name): [string, string[], RegExp] => [`the protocol "${name}"`, protocol(name), /^Sec-WebSocket-Protocol/]),
    ['two protocols', [...protocol('a'), 'Sec-WebSocket-Protocol', 'b'], /^Sec-WebSocket-Protocol/],
    ...['x', 'y', 'z', 'x;q=2', 'x ; q', 'z,x', 'x, , y,', ''].map((value): [string, string[], undefined] => [`the extensions "${value}"`, extensions(value), undefined]),
    ['extensions in two fields', extensions('x', 'y'), undefined],
    ...['w', 'x, w', 'X', 'x, x', 'x; a, x; b'].map((value): [string, string[], RegExp] => [`the extensions "${value}"`, extensions(value), /^Sec-WebSocket-Extensions/]),
    ['an extension in two fields', extensions('x', 'x'), /^Sec-WebSocket-Extensions/],
  ]; // prettier-ignore
  for (const [about, response, wanted] of rows) {
    const fault = handshakeResponseFault(response, offers);
    if (wanted === undefined) t.equal(fault, undefined, about);
    else t.match(fault, wanted, about);
  }
  const empty = [...SENT, 'Sec-WebSocket-Protocol', 'a,'];
  for (const response of [protocol(''), extensions('x')])
    t.ok(handshakeResponseFault(response, empty), 'nothing of it was offered');
}); // prettier-ignore

t.test('a refused handshake is passed on, framed anew', async (t) => {
  const rows: readonly [number, string, boolean, string][] = [
    [401, 'who?', true, 'HTTP/1.1 401 X\r\nA: b\r\nConnection: close\r\nContent-Length: 4\r\n\r\nwho?'],
    [403, '', true, 'HTTP/1.1 403 X\r\nA: b\r\nConnection: close\r\nContent-Length: 0\r\n\r\n'],
    // The client sees that something is missing.
    [404, 'a part', false, 'HTTP/1.1 404 X\r\nA: b\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n6\r\na part'],
    [503, '', false, 'HTTP/1.1 503 X\r\nA: b\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n'],
    [304, '', true, 'HTTP/1.1 304 X\r\nA: b\r\nConnection: close\r\n\r\n'],
  ];
  for (const [status, body, isWhole, wanted] of rows) {
    const response = { status, reason: 'X', body: Buffer.from(body), isWhole };
    t.equal(refusedResponse(response, ['content-length', '99', 'A', 'b']).toString(), wanted, String(status));
  }
}); // prettier-ignore
