// Requests as text with one byte per character.
import { corrupt } from '../mutate.mjs';

/** @import { Random } from '../random.mjs' */

const METHODS = ['GET', 'GET', 'POST', 'POST', 'PUT', 'DELETE', 'HEAD', 'OPTIONS', 'PATCH', 'TRACE', 'BREW'];
const TARGETS = [
  '/',
  '/a?b=c',
  '//',
  '/%',
  '/%00',
  '*',
  'http://x/',
  `/${'a'.repeat(3_000)}`,
  '/__proto__',
  '/"\'<>',
  '/a#b',
  '',
];
const FIELDS = [
  'Expect: 100-continue', 'Expect: x', 'Connection: close', 'Connection: Upgrade\r\nUpgrade: websocket', 'X-Auth-Role: superuser', 'x-auth-__proto__: a',
  'Content-Type: text/plain', 'Content-Encoding: gzip', 'Transfer-Encoding: gzip', 'Host: y', `X-Long: ${'a'.repeat(9_000)}`, 'A: \xff\xfe', 'Trailer: X-Auth-Assertion',
]; // prettier-ignore

/**
 * Returns a correctly framed request with a body.
 *
 * @param {string} method
 * @param {string[]} fields
 */
export function request(method, fields, body = '', target = '/') {
  const length = body === '' && method !== 'POST' ? [] : [`Content-Length: ${body.length}`];
  return [`${method} ${target} HTTP/1.1`, 'Host: x', ...fields, ...length, '', body].join('\r\n');
}

/**
 * Returns a request with another request in its body. A server that leaves the body unread answers
 * both.
 *
 * @param {Random} random
 * @param {string} inner
 */
export function nested(random, inner) {
  const method = random.pick(['GET', 'POST', 'PUT', 'DELETE']);
  if (random.oneIn(2)) return request(method, [], inner);
  const chunk = `${inner.length.toString(16)}\r\n${inner}\r\n0\r\n\r\n`;
  return `${method} / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n${chunk}`;
}

/**
 * Makes a request less well-formed: with other methods, targets, fields or bytes.
 *
 * @param {Random} random
 * @param {string} text
 * @param {string[]} others
 */
export function spoil(random, text, others) {
  const way = random.below(4);
  if (way === 0) return corrupt(random, text, others);
  if (way === 1) return text.replace('\r\nHost: x', `\r\nHost: x\r\n${random.pick(FIELDS)}`);
  const start = `${random.pick(METHODS)} ${random.pick(TARGETS)} HTTP/1.1`;
  return way === 2 ? text.replace(/^[^\r\n]*/, () => start) : random.bytes(1 + random.below(200));
}
