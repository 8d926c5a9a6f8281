/**
 * Clients of one case: what they send, on which port, and how they disconnect. A case is plain
 * JSON, so that it can be saved.
 */
import { connect as connectPlain } from 'node:net';
import { connect as connectTls } from 'node:tls';

/** @import { Random } from './random.mjs' */
/**
 * One exchange: bytes as Latin-1 text, and how the client ends.
 *
 * @typedef {{ port: 'tls' | 'plain', bytes: string, ending: 'wait' | 'end' | 'reset', afterMs:
 *   number }} Client
 */

/** A legacy key, the same in each run, so that a case can be saved. */
export const KEY = 'fuzz-account-key-0123456789';
const PREFACE = 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0';

const HEADERS = 1;
const END_STREAM = 1;
const END_HEADERS = 4;
const CODES = [0, 1, 2, 3, 5, 7, 8, 11, 13, 255, 0xffffffff];
const METHODS = ['GET', 'GET', 'POST', 'POST', 'PUT', 'HEAD', 'DELETE', 'OPTIONS', 'CONNECT', 'TRACE'];
/** @type {[name: string, value: string][]} */
const FIELDS = [['x-a', 'b'], ['__proto__', 'a'], ['constructor', 'a'], ['te', 'trailers'], ['te', 'gzip'], ['connection', 'close'], ['http2-settings', 'y'],
  ['expect', '100-continue'], ['content-length', '5'], ['content-length', '0'], ['transfer-encoding', 'chunked'], ['upgrade', 'websocket'],
  [':status', '200'], [':protocol', 'websocket'], ['cookie', 'a=b'], ['cookie', 'service.session=x'], ['X-Upper', 'a'], ['', 'a'], ['x', '\0'], ['x', 'a\r\nb: c'], ['host', 'b'], ['x', 'y'.repeat(9_000)]]; // prettier-ignore
const HANDSHAKE = [
  'Connection: Upgrade',
  'Upgrade: websocket',
  'Sec-WebSocket-Version: 13',
  'Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==',
];
const LINES = ['Upgrade: h2c', 'Upgrade: websocket', 'Upgrade: websocket, h2c', 'HTTP2-Settings: AA', 'Connection: Upgrade, HTTP2-Settings', 'Connection: close',
  'Connection: Sec-WebSocket-Key', 'Sec-WebSocket-Protocol: a, b', 'Sec-WebSocket-Extensions: permessage-deflate; a="b"', 'Sec-WebSocket-Key: x', 'Sec-WebSocket-Version: 8',
  'Content-Length: 5', 'Content-Length: 0', 'Transfer-Encoding: chunked', 'Expect: 100-continue', '__proto__: a', 'constructor: b', 'Origin: http://evil.example', 'TE: trailers']; // prettier-ignore

/**
 * @param {Random} random
 * @param {number} at
 * @returns {Client}
 */
export function makeClient(random, at) {
  const ending = random.pick(/** @type {const} */ (['wait', 'wait', 'wait', 'end', 'reset']));
  const afterMs = random.below(12);
  if (random.oneIn(2)) return { port: 'tls', bytes: makeFrames(random, at), ending, afterMs };
  return { port: 'plain', bytes: makeRequest(random, at), ending, afterMs };
}

/**
 * @param {Random} random
 * @param {number} at
 */
function makeRequest(random, at) {
  const lines = ['Host: a', `Service-Key: ${KEY}`];
  const handshake = random.below(3) > 0;
  if (handshake) lines.push(...HANDSHAKE);
  for (let i = random.below(3); i > 0; i--)
    lines.splice(random.below(lines.length + 1), random.oneIn(4) ? 1 : 0, random.pick(LINES));
  const method = handshake && !random.oneIn(8) ? 'GET' : random.pick(METHODS);
  const head = `${method} /${at} HTTP/1.1\r\n${lines.join('\r\n')}\r\n\r\n`;
  const rest = random.pick([
    '',
    '',
    'hello',
    '5\r\nhello\r\n0\r\nX-T: 1\r\n\r\n',
    head,
    '\x81\x05hello',
    'x'.repeat(70_000),
  ]);
  return head + rest;
}

/**
 * @param {Random} random
 * @param {number} at
 */
function makeFrames(random, at) {
  const frames = [];
  for (let i = 0, stream = 1; i < 1 + random.below(4); i++, stream += 2) {
    const method = random.pick(METHODS);
    /** @type {[name: string, value: string][]} */
    const fields = [[':method', method], [':scheme', 'https'], [':path', `/${at + i}`], [':authority', 'a'], ['service-key', KEY]];
    for (let n = random.below(3); n > 0; n--) fields.push(random.pick(FIELDS));
    if (random.oneIn(10)) fields.splice(random.below(5), 1);
    const upload = random.oneIn(2);
    frames.push(frame(HEADERS, (upload ? 0 : END_STREAM) | END_HEADERS, stream, block(fields)));
    for (let n = upload ? random.below(4) : 0; n > 0; n--)
      frames.push(frame(0, random.oneIn(3) ? END_STREAM : 0, stream, 'x'.repeat(random.pick([0, 1, 100, 16_000]))));
    if (upload && random.oneIn(3))
      frames.push(frame(HEADERS, random.oneIn(5) ? END_HEADERS : END_STREAM | END_HEADERS, stream, block([random.pick(FIELDS)])));
    if (random.oneIn(3)) frames.push(frame(3, 0, stream, uint32(random.pick(CODES))));
    if (random.oneIn(8)) frames.push(odd(random, stream));
  }
  return frames.join('');
} // prettier-ignore

/**
 * Frames that clients send rarely or never.
 *
 * @param {Random} random
 * @param {number} stream
 */
function odd(random, stream) {
  return random.pick([
    () => frame(2, 0, stream, '\0\0\0\0\x10'),
    () => frame(4, 0, 0, '\0\x04' + uint32(random.pick([0, 1, 65_535, 0x7fffffff, 0xffffffff]))),
    () => frame(6, 0, 0, '12345678'),
    () => frame(7, 0, 0, uint32(0) + uint32(random.pick(CODES))),
    () => frame(8, 0, random.pick([0, stream]), uint32(random.pick([0, 1, 0x7fffffff]))),
    () => frame(9, END_HEADERS, stream, ''),
    () => frame(5, 0, stream, uint32(2)),
    () => frame(3, 0, stream + 100, uint32(8)),
    () => frame(random.below(256), random.below(256), random.below(9), random.bytes(random.below(40))),
    () => random.bytes(1 + random.below(30)),
  ])();
}

/**
 * @param {number} type
 * @param {number} flags
 * @param {number} stream
 * @param {string} payload
 */
function frame(type, flags, stream, payload) {
  const { length } = payload;
  const head = [length >> 16, (length >> 8) & 255, length & 255, type, flags];
  return String.fromCharCode(...head) + uint32(stream) + payload;
}

/** @param {number} value */
function uint32(value) {
  return String.fromCharCode(value >>> 24, (value >>> 16) & 255, (value >>> 8) & 255, value & 255);
}

/**
 * Encodes literals without indexing (RFC 7541 6.2.2).
 *
 * @param {[name: string, value: string][]} fields
 */
function block(fields) {
  return fields.map(([name, value]) => `\0${text(name)}${text(value)}`).join('');
}

/** @param {string} value */
function text(value) {
  if (value.length < 127) return String.fromCharCode(value.length) + value;
  let rest = value.length - 127;
  let length = '\x7f';
  for (; rest >= 128; rest >>>= 7) length += String.fromCharCode((rest & 127) | 128);
  return length + String.fromCharCode(rest) + value;
}

/**
 * Sends a client's bytes. Resolves when its connection has ended or it has disconnected.
 *
 * @param {Client} client
 * @param {{ port: number, tlsPort: number }} subject
 * @param {number} waitMs
 * @returns {Promise<void>}
 */
export function play({ port, bytes, ending, afterMs }, subject, waitMs) {
  return new Promise((resolve) => {
    const over = () => {
      clearTimeout(timer);
      socket.destroy();
      resolve();
    };
    const timer = setTimeout(over, waitMs);
    const begin = () => {
      socket.write(Buffer.from(port === 'tls' ? PREFACE + bytes : bytes, 'latin1'));
      if (ending === 'end') setTimeout(() => socket.end(), afterMs);
      if (ending === 'reset') setTimeout(() => socket.destroy(), afterMs);
    };
    const socket =
      port === 'tls'
        ? connectTls({ host: '127.0.0.1', port: subject.tlsPort, rejectUnauthorized: false, ALPNProtocols: ['h2'] }, begin)
        : connectPlain({ host: '127.0.0.1', port: subject.port }, begin);
    socket.on('data', () => undefined).on('error', () => undefined).on('close', over).on('end', over);
  });
} // prettier-ignore
