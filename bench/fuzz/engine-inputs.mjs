import { SEEDS } from './corpus.mjs';
import { corrupt, mutate, serialise } from './mutate.mjs';

/** @import { Request } from './corpus.mjs' */
/** @import { Random } from './random.mjs' */
/**
 * Bytes as Latin-1. `answers` is the method of the request that they respond to; without it, they
 * are requests. `from` is the pipeline they were made from.
 *
 * @typedef {{ answers?: string | undefined, bytes: string, from?: Request[] }} Input
 */

const METHODS = ['GET', 'GET', 'POST', 'HEAD', 'DELETE'];
/** Number of well-formed first lines below. */
const KNOWN_STARTS = 10;
const STARTS = [
  'HTTP/1.1 200 OK', 'HTTP/1.1 200 OK', 'HTTP/1.1 204 No Content', 'HTTP/1.1 304 Not Modified', 'HTTP/1.0 200 OK', 'HTTP/1.1 500 ',
  'HTTP/1.1 404', 'HTTP/1.1 101 Switching Protocols', 'HTTP/1.1 100 Continue', 'HTTP/1.1 103 Early Hints', 'HTTP/1.1 099 X',
  'HTTP/1.1 600 X', 'HTTP/1.1 20 X', 'HTTP/1.1 2000 X', 'HTTP/1.2 200 OK', 'HTTP/2.0 200 OK', 'http/1.1 200 OK', 'HTTP/1.1  200 OK',
  'HTTP/1.1 205 Reset', 'HTTP/1.1 200 \xe9\t!', 'HTTP/1.1\t200 OK', 'ICY 200 OK', 'RTSP/1.1 200 OK', 'HTTP/1.1 +20 X',
]; // prettier-ignore
const LINES = [
  'Content-Length: 5', 'Content-Length: 0', 'Content-Length: 05', 'Content-Length: 5, 5', 'Content-Length: +5', 'Content-Length:',
  'Content-Length:\t5', 'Content-Length: 5\t', 'Content-Length: 5 ', 'content-length:5', 'Content-Length: 0x5', 'Content-Length: 99999999999999999999',
  'Transfer-Encoding: chunked', 'transfer-encoding:chunked', 'Transfer-Encoding: CHUNKED', 'Transfer-Encoding: chunked ', 'Transfer-Encoding: chunked\t',
  'Transfer-Encoding: gzip, chunked', 'Transfer-Encoding: chunked, chunked', 'Transfer-Encoding: identity', 'Transfer-Encoding: ,chunked',
  'Transfer-Encoding:', 'Connection: close', 'Connection: keep-alive', 'Connection: Close, TE', 'Connection: a b', 'Connection: ,', 'Connection: upgrade',
  'Upgrade: websocket', 'X-A: b', 'X-A:', 'X-A: \xff', 'X-A: a\tb', 'X-A: a\0', 'X A: b', 'X-A : b', ' X-A: b', 'X-A: b\r', 'X-A: a\nB: c', ': b', 'X-A',
  'Set-Cookie: a=1', 'Trailer: X', 'Keep-Alive: timeout=5', 'Proxy-Connection: close', 'Proxy-Connection: keep-alive, close', 'Content-Type: text/plain', `X-Long: ${'a'.repeat(5_000)}`,
]; // prettier-ignore
const BODIES = [
  '', 'hello', 'hell', 'hello!', '5\r\nhello\r\n0\r\n\r\n', '5;a=b\r\nhello\r\n0\r\n\r\n', '5;a="b;c\\""\r\nhello\r\n0\r\n\r\n', '5 \r\nhello\r\n0\r\n\r\n',
  '5\nhello\r\n0\r\n\r\n', '5\r\nhello\r\n0\r\nX-T: 1\r\n\r\n', '5\r\nhello\r\n0\r\nContent-Length: 1\r\n\r\n', '5\r\nhello\r\n00\r\n\r\n', '5\r\nhello0\r\n\r\n',
  '05\r\nhello\r\n0\r\n\r\n', '0000000000005\r\nhello\r\n0\r\n\r\n', '5;\r\nhello\r\n0\r\n\r\n', '5;a;b=c\r\nhello\r\n0\r\n\r\n', '0x5\r\nhello\r\n0\r\n\r\n',
  '5\r\nhello\r\n0\r\n', '5\r\nhello\r\n0\r\n X: y\r\n\r\n', 'ffffffff\r\n', '\r\n5\r\nhello\r\n0\r\n\r\n', '5;a= b\r\nhello\r\n0\r\n\r\n', '5;\xe9\r\nhello\r\n0\r\n\r\n',
]; // prettier-ignore
const ENDS = [
  '\r\n',
  '\r\n',
  '\r\n',
  '\r\n',
  '\r\n',
  '\r\n',
  '\r\n',
  '\r\n',
  '\n',
  '\r',
  '\r\r\n',
  '\r\n ',
  '\n\r\n',
];

/**
 * Generates bytes from a client, as the fuzzer of the whole server does.
 *
 * @param {Random} random
 * @param {Request[][]} pool
 * @returns {Input}
 */
export function requestInput(random, pool) {
  const pipeline = mutate(random, random.pick(pool));
  const text = serialise(random, pipeline);
  return { answers: undefined, bytes: random.oneIn(3) ? corrupt(random, text, []) : text, from: pipeline };
}

/**
 * Generates bytes from an upstream, and the method they respond to. Most are well-formed except for
 * one fault.
 *
 * @param {Random} random
 * @returns {Input}
 */
export function answerInput(random) {
  const answers = random.pick(METHODS);
  /**
   * @param {number} times
   * @param {string[]} list
   * @param {string} otherwise
   */
  const odd = (times, list, otherwise) => (random.oneIn(times) ? random.pick(list) : otherwise);
  let bytes = '';
  for (let i = random.oneIn(3) ? 2 : 1; i > 0; i--) {
    const start = random.pick(random.oneIn(3) ? STARTS : STARTS.slice(0, KNOWN_STARTS));
    const lines = Array.from({ length: random.below(4) }, () => random.pick(LINES));
    bytes += [start, ...lines].map((line) => line + odd(25, ENDS, '\r\n')).join('');
    bytes += odd(25, ENDS, '\r\n') + random.pick(BODIES);
  }
  return { answers, bytes: random.oneIn(3) ? corrupt(random, bytes, []) : bytes };
}

/**
 * Generates request lines and fields as unusual as those of responses.
 *
 * @param {Random} random
 * @returns {Input}
 */
export function oddRequestInput(random) {
  const { bytes } = answerInput(random);
  const line = random.pick(['GET / HTTP/1.1', 'POST /a HTTP/1.1', 'POST /a HTTP/1.0', 'OPTIONS * HTTP/1.1', 'CONNECT a:1 HTTP/1.1', 'GET http://a/ HTTP/1.1']);
  const host = random.oneIn(8) ? '' : random.pick(['Host: a\r\n', 'Host: a\r\n', 'host:a\r\n', 'Host: A\r\n', 'Host: a:80\r\n']);
  const rest = bytes.slice(bytes.search(/\r?\n|\r|$/)).replace(/^(?:\r\n|\r|\n)/, '');
  const text = `${random.oneIn(10) ? '\r\n' : ''}${line}\r\n${host}${rest}`;
  return { answers: undefined, bytes: random.oneIn(5) ? corrupt(random, text, []) : text };
} // prettier-ignore

/** Pipelines to start from. */
export const PIPELINES = SEEDS;

/**
 * Cuts bytes into pieces, as a network would.
 *
 * @param {Random} random
 * @param {string} bytes
 */
export function cut(random, bytes) {
  const buffer = Buffer.from(bytes, 'latin1');
  if (random.oneIn(40)) return Array.from(buffer, (_, i) => buffer.subarray(i, i + 1));
  const places = Array.from({ length: random.below(5) }, () => random.below(buffer.length + 1));
  const all = [0, ...places.toSorted((a, b) => a - b), buffer.length];
  return all.slice(1).map((to, i) => buffer.subarray(all[i], to));
}
