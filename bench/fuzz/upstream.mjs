/** Hostile upstreams: responses made of parts, each of which may be invalid. */
import { once } from 'node:events';
import { createServer } from 'node:net';
import { acceptOf } from '../../test/helpers/wire.mjs';

/** @import { Random } from './random.mjs' */
/** @typedef {{ answers: string[], ending: 'keep' | 'end' | 'reset', pieces: number }} Answering */

const STATUSES = [
  '200',
  '200',
  '200',
  '204',
  '206',
  '304',
  '404',
  '500',
  '101',
  '100',
  '102',
  '103',
  '199',
  '000',
  '099',
  '600',
  '999',
  '20',
  'abc',
];
const REASONS = ['OK', '', 'a b', '\x01', '\x7f', '\xe9', '\t', '\0', 'x'.repeat(2_000)];
const NAMES = [
  'X-A',
  '__proto__',
  'constructor',
  'toString',
  ':status',
  ':path',
  'HTTP2-Settings',
  'Connection',
  'Keep-Alive',
  'Proxy-Connection',
  'Upgrade',
  'TE',
  'Trailer',
  'Transfer-Encoding',
  'Content-Length',
  'Content-Type',
  'Set-Cookie',
  'Date',
  'X-Request-Id',
  'Sec-WebSocket-Accept',
  'Sec-WebSocket-Protocol',
  'Sec-WebSocket-Extensions',
  '',
  ' X',
  'X ',
  'X\tY',
  'X\0',
  'X\xe9',
  'x'.repeat(300),
];
const VALUES = [
  'a',
  '',
  'close',
  'Upgrade',
  'keep-alive, X-A',
  'websocket',
  'h2c',
  'chunked',
  'gzip',
  'gzip, chunked',
  '0',
  '5',
  '-1',
  '5, 5',
  '99999999999999999999',
  'trailers',
  '\x01',
  '\x7f',
  '\xe9\xff',
  '\0',
  ' a ',
  'service.session=evil',
  'a'.repeat(5_000),
  'a\r b',
  'a\n b',
];
const ENDS = ['\r\n', '\r\n', '\r\n', '\r\n', '\n', '\r'];
const BODIES = ['', 'ok', '2\r\nok\r\n0\r\n\r\n', '2\r\nok\r\n0\r\nHTTP2-Settings: y\r\n\r\n', '2\r\nok\r\n0\r\n__proto__: y\r\n:a: b\r\n\r\n',
  '2\r\nok\r\n', 'zz\r\n', '2;a=b\r\nok\r\n0\r\nContent-Length: 5\r\nConnection: x\r\nX-T: 1\r\n\r\n', 'x'.repeat(70_000)]; // prettier-ignore

/**
 * Generates a response as it is saved: `{{ACCEPT}}` stands for the value derived from the
 * handshake's key.
 *
 * @param {Random} random
 */
export function makeAnswer(random) {
  if (random.oneIn(25)) return '';
  let bytes = '';
  const heads = random.oneIn(6) ? 1 + random.below(60) : 1;
  for (let i = 0; i < heads; i++)
    bytes += makeHead(random, i < heads - 1 ? '10' + random.below(4) : undefined);
  bytes += random.pick(BODIES);
  if (random.oneIn(6)) {
    const at = random.below(bytes.length + 1);
    bytes = bytes.slice(0, at) + random.bytes(1 + random.below(3)) + bytes.slice(at + random.below(3));
  }
  return random.oneIn(10) ? bytes.slice(0, random.below(bytes.length + 1)) : bytes;
}

/**
 * @param {Random} random
 * @param {string} [status]
 */
function makeHead(random, status = random.pick(STATUSES)) {
  const fields = [];
  const websocket = status === '101' || random.oneIn(3);
  if (websocket)
    fields.push('Connection: Upgrade\r\n', 'Upgrade: websocket\r\n', 'Sec-WebSocket-Accept: {{ACCEPT}}\r\n');
  else if (random.oneIn(2))
    fields.push(random.pick(['Transfer-Encoding: chunked\r\n', 'Content-Length: 2\r\n']));
  for (let i = random.below(4); i > 0; i--) {
    const line = `${random.pick(NAMES)}:${random.pick([' ', ''])}${random.pick(VALUES)}${random.pick(ENDS)}`;
    fields.splice(random.below(fields.length + 1), random.oneIn(5) ? 1 : 0, line);
  }
  const version = random.oneIn(20) ? random.pick(['HTTP/1.0', 'HTTP/2.0', 'http/1.1', 'ICY']) : 'HTTP/1.1';
  return `${version} ${status} ${random.oneIn(4) ? random.pick(REASONS) : 'OK'}\r\n${fields.join('')}\r\n`;
}

/**
 * Starts an upstream that selects the response by the path of the request: `/N` for the Nth
 * response.
 */
export async function startHostileUpstream() {
  const sockets = new Set();
  /** @type {Answering} */
  const state = { answers: [], ending: 'keep', pieces: 1 };
  const server = createServer((socket) => {
    sockets.add(socket);
    socket.on('error', () => undefined).on('close', () => sockets.delete(socket));
    socket.on('data', (chunk) => reply(socket, chunk.toString('latin1'), state));
  });
  await once(server.listen(0, '127.0.0.1'), 'listening');
  const { port } = /** @type {import('node:net').AddressInfo} */ (server.address());
  return {
    url: `http://127.0.0.1:${port}`,
    state,
    open: () => sockets.size,
    close: () => {
      server.close();
      for (const socket of sockets) socket.destroy();
    },
  };
}

/**
 * @param {import('node:net').Socket} socket
 * @param {string} head
 * @param {Answering} answering
 */
function reply(socket, head, { answers, ending, pieces }) {
  const [, at] = /^[A-Z]+ \/(\d+)/.exec(head) ?? [];
  if (head.startsWith('GET /control')) socket.write('HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok');
  const answer = at === undefined ? undefined : answers[Number(at) % Math.max(1, answers.length)];
  if (answer === undefined) return;
  const key = /^sec-websocket-key: (.*)\r$/im.exec(head)?.[1];
  const bytes = Buffer.from(answer.replaceAll('{{ACCEPT}}', acceptOf(key)), 'latin1');
  const size = Math.ceil(bytes.length / pieces) || 1;
  for (let from = 0; from < bytes.length; from += size) socket.write(bytes.subarray(from, from + size));
  if (ending === 'end') socket.end();
  else if (ending === 'reset') setTimeout(() => socket.resetAndDestroy(), 5);
}
