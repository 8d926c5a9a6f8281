import { CREDENTIALS, SEEDS, SMUGGLED } from './corpus.mjs';

/** @import { Field, Request } from './corpus.mjs' */
/** @import { Random } from './random.mjs' */

const METHODS = [
  'GET',
  'HEAD',
  'POST',
  'PUT',
  'PATCH',
  'DELETE',
  'OPTIONS',
  'PURGE',
  'TRACE',
  'CONNECT',
  'get',
  'PRI',
  'QUERY',
];
const VERSIONS = [
  'HTTP/1.1',
  'HTTP/1.1',
  'HTTP/1.0',
  'HTTP/1.2',
  'HTTP/2.0',
  'HTTP/0.9',
  'http/1.1',
  'HTTP/1.1 ',
  'ICE/1.0',
  '',
];
const PARTS = [
  '/', '//', '%2f', '%2F', '/.', '/..', '%2e%2e', ';', ';x=1', '%3b', '%5c', '\\', '%00', '%', '%25', '%252f', '?', '#',
  '*', '@', ':', ' ', '\t', '\xe9', '%c3%a9', '/service/', 'SVC1', 'SVC2', '/purge_all', '/tokens', '/self', '/billing',
  '/status', '/login', 'switch', 'http://evil.example/', '/customer/C2/tokens', '/user/engineer', 'a'.repeat(300),
]; // prettier-ignore
/** @type {Field[]} */
const FIELDS = [
  ['X-Auth-User-Id', 'evil'], ['x_auth_user_id', 'evil'], ['X.Auth.Role', 'evil'], ['X-Auth-Scope', 'evil'],
  ['X-Forwarded-For', '203.0.113.9'], ['Forwarded', 'for=203.0.113.9'], ['X-Original-URL', '/evil'], ['Proxy', 'evil'],
  ['X-HTTP-Method-Override', 'DELETE'], ['X-Request-Id', 'evil'], ['Host', 'evil.example'], ['Host', 'a b'],
  ['Content-Length', '0'], ['Content-Length', '5'], ['Content-Length', '-1'], ['Content-Length', '5, 5'], ['Content-Length', '0x5'],
  ['Content_Length', '5'], ['Content-Length', '99999999999999999999'], ['Transfer-Encoding', 'chunked'],
  ['Transfer-Encoding', 'identity'], ['Transfer-Encoding', 'gzip, chunked'], ['Transfer-Encoding', 'chunked, chunked'],
  ['Transfer-Encoding', '\x0bchunked'], ['Transfer_Encoding', 'chunked'], ['TE', 'trailers'], ['Trailer', 'X-Auth-User-Id'],
  ['Connection', 'close'], ['Connection', 'keep-alive'], ['Connection', 'X-Auth-User-Id, X-Forwarded-For, Host'],
  ['Connection', 'Content-Length'], ['Connection', 'Transfer-Encoding'], ['Connection', 'Upgrade'], ['Keep-Alive', 'timeout=1'],
  ['Upgrade', 'websocket'], ['Upgrade', 'h2c'], ['HTTP2-Settings', 'AAMAAABkAARAAAAAAAIAAAAA'], ['Expect', '100-continue'],
  ['Expect', 'x'], ['Content-Encoding', 'gzip'], ['Content-Type', 'application/json'], ['Content-Type', 'multipart/form-data'],
  ['Service-Key', 'bad'], ['Service_Key', '{{TOKEN}}'], ['Service-OTP', '1'], ['Cookie', 'service.session=bad'], ['Origin', 'http://evil.example'],
  ['Sec-Fetch-Site', 'cross-site'], ['Authorization', 'Basic eDp5'], ['Range', 'bytes=0-'], ['User-Agent', '\u00ff\u0080'], ['A', ''],
  ['X-Long', 'a'.repeat(9_000)], ['Cookie', `${'a=1; '.repeat(200)}b`], ['constructor', 'x'], ['__proto__', 'x'], ['Sec-WebSocket-Key', 'x'],
]; // prettier-ignore
const BODIES = ['', 'a', '0\r\n\r\n', SMUGGLED, `0\r\n\r\n${SMUGGLED}`, '{"a":', '[]', 'null', '{"__proto__":{"a":1}}', 'a=%ff&&=&user',
  '{"username":[1],"password":{}}', 'services[]=&scope=&expires_at=2030-01-01', '\xff\xfe', 'x'.repeat(70_000), '['.repeat(5_000)]; // prettier-ignore
const CHUNK_SIZES = [
  '0',
  '00',
  '5',
  '0x5',
  '-1',
  '5 ',
  ' 5',
  '5;a',
  '5;a="b',
  '5\n',
  'FFFFFFFFFFFFFFFFF',
  '5;a=b',
  '',
  '1e',
  '5,5',
];
/** How far a Content-Length exceeds the body, by framing. */
const LENGTHS = { none: undefined, length: 0, chunked: undefined, both: 0, long: 3, short: -1 };
const ENDS = ['\r\n', '\r\n', '\r\n', '\n', '\r', '\r\r\n', '\n\n', '\r\n ', '\0\r\n'];

/**
 * Mutates a pipeline by one to four changes that keep to the structure of requests.
 *
 * @param {Random} random
 * @param {Request[]} pipeline
 */
export function mutate(random, pipeline) {
  let made = structuredClone(pipeline);
  for (let i = 1 + random.below(4); i > 0; i--) {
    if (random.oneIn(12)) made.push(structuredClone(random.pick(random.pick(SEEDS))));
    else if (random.oneIn(30)) made = [...made, ...structuredClone(made)];
    else change(random, random.pick(made));
    if (made.length > 4) made.length = 4;
  }
  return made;
}

/**
 * @param {Random} random
 * @param {Request} request
 */
function change(random, request) {
  const { fields } = request;
  const at = random.below(fields.length + 1);
  const field = fields[at];
  switch (random.below(16)) {
    case 0: request.method = random.pick(METHODS); break;
    case 1: request.version = random.pick(VERSIONS); break;
    case 2: case 3: request.target = changedTarget(random, request.target); break;
    case 4: case 5: case 6: fields.splice(at, 0, [...random.pick(FIELDS)]); break;
    case 7: if (field !== undefined) fields.splice(at, 1); break;
    case 8: if (field !== undefined) fields.splice(random.below(fields.length), 0, [...field]); break;
    case 9: if (field !== undefined) field[0] = changedName(random, field[0]); break;
    case 10: if (field !== undefined) field[1] = changedValue(random, field[1]); break;
    case 11: if (field !== undefined) field[2] = random.pick(ENDS); break;
    case 12: fields.splice(at, 0, [...random.pick(Object.values(CREDENTIALS))]); break;
    case 13: request.framing = random.pick(['none', 'length', 'chunked', 'chunked', 'both', 'long', 'short']); break;
    case 14: request.body = random.pick(BODIES); break;
    default: request.chunks = random.pick([undefined, 'odd', 'cut', 'trailers', 'extensions']); request.framing = 'chunked';
  } // prettier-ignore
}

/**
 * @param {Random} random
 * @param {string} target
 */
function changedTarget(random, target) {
  const at = random.below(target.length + 1);
  if (random.oneIn(5)) return random.pick(random.pick(SEEDS)).target;
  if (random.oneIn(25)) return target + 'a'.repeat(9_000);
  if (random.oneIn(3)) {
    const code = target.charCodeAt(at % Math.max(1, target.length)) || 0x2f;
    return `${target.slice(0, at)}%${code.toString(16).padStart(2, '0')}${target.slice(at + 1)}`;
  }
  return target.slice(0, at) + random.pick(PARTS) + target.slice(at + random.below(3));
}

/**
 * @param {Random} random
 * @param {string} name
 */
function changedName(random, name) {
  const at = random.below(name.length + 1);
  const ways = [name.toUpperCase(), name.replaceAll('-', '_'), name.replaceAll('-', '.'), `${name} `, `${name}\t`, ` ${name}`, '', `${name}2`];
  return random.oneIn(3) ? name.slice(0, at) + random.pick(['\0', '\r', '\n', ':', '\xff', ' ', '(', '-']) + name.slice(at) : random.pick(ways);
} // prettier-ignore

/**
 * @param {Random} random
 * @param {string} value
 */
function changedValue(random, value) {
  const at = random.below(value.length + 1);
  const more = random.pick([
    '\0',
    '\r',
    '\n',
    '\t',
    '\x0b',
    '\x7f',
    '\xff',
    ' ',
    ',',
    ';',
    '"',
    '\r\n ',
    '\r\nX-Auth-User-Id: evil',
    'a',
  ]);
  return random.oneIn(8) ? `${value}, ${value}` : value.slice(0, at) + more + value.slice(at);
}

/**
 * Returns the bytes of a pipeline, framed as each request says.
 *
 * @param {Random} random
 * @param {Request[]} pipeline
 */
export function serialise(random, pipeline) {
  return pipeline.map((request) => head(request) + framedBody(random, request)).join('');
}

/** @param {Request} request */
function head({ method, target, version, fields, body, framing }) {
  const lines = fields.map(([name, value, end = '\r\n']) => `${name}: ${value}${end}`);
  const length = LENGTHS[framing];
  if (length !== undefined) lines.push(`Content-Length: ${Math.max(0, body.length + length)}\r\n`);
  if (framing === 'chunked' || framing === 'both') lines.push('Transfer-Encoding: chunked\r\n');
  return `${method} ${target} ${version}\r\n${lines.join('')}\r\n`;
}

/**
 * @param {Random} random
 * @param {Request} request
 */
function framedBody(random, { body, framing, chunks }) {
  if (framing === 'none') return '';
  if (framing !== 'chunked' && framing !== 'both') return body;
  let out = '';
  for (let from = 0; from < body.length;) {
    const size = 1 + random.below(Math.min(body.length - from, 40_000));
    const extension = chunks === 'extensions' ? random.pick([';a', ';a=b', ';a="b;c"', '']) : '';
    const said =
      chunks === 'odd' && random.oneIn(3) ? random.pick(CHUNK_SIZES) : size.toString(16) + extension;
    out += `${said}\r\n${body.slice(from, from + size)}${chunks === 'odd' && random.oneIn(4) ? '' : '\r\n'}`;
    from += size;
  }
  if (chunks === 'cut') return out;
  return `${out}0\r\n${chunks === 'trailers' ? 'X-Auth-User-Id: evil\r\nContent-Length: 5\r\n' : ''}\r\n`;
}

/**
 * Changes a few bytes without regard to their meaning.
 *
 * @param {Random} random
 * @param {string} text
 * @param {string[]} others
 */
export function corrupt(random, text, others) {
  let made = text;
  for (let i = 1 + random.below(3); i > 0; i--) {
    const at = random.below(made.length + 1);
    const length = random.below(20);
    const way = random.below(6);
    if (way === 0) made = made.slice(0, at) + random.bytes(1 + random.below(4)) + made.slice(at);
    else if (way === 1) made = made.slice(0, at) + random.bytes(1) + made.slice(at + 1);
    else if (way === 2) made = made.slice(0, at) + made.slice(at + length);
    else if (way === 3) made = made.slice(0, at) + made.slice(at, at + length) + made.slice(at);
    else if (way === 4)
      made =
        made.slice(0, at) +
        random.pick(['\r\n', '\n', '\r', '\r\n\r\n', ' ', '0', ':', '\0']) +
        made.slice(at);
    else if (others.length > 0) {
      const other = random.pick(others);
      made = made.slice(0, at) + other.slice(random.below(other.length + 1));
    }
  }
  return made.slice(0, 200_000);
}
