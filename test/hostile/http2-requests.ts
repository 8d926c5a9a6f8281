import {
  block,
  END_HEADERS,
  END_STREAM,
  frame,
  HEADERS,
  uint32,
  CONTINUATION,
  DATA,
  RST_STREAM,
} from '../helpers/frames.js';
import type { Random } from '../helpers/random.js';

const PADDED = 8;
const METHODS = ['GET', 'POST', 'POST', 'PUT', 'DELETE', 'PATCH', 'HEAD', 'OPTIONS'];
const READS = new Set(['GET', 'HEAD', 'OPTIONS']);
/** Streams that are reset in the middle get one of these codes. */
const CODES = [0, 7, 8, 99];
type Field = [name: string, value: string];

/** A request as it was sent, in frames. */
export interface SentRequest {
  readonly method: string;
  readonly body: string;
  /** Whether all of the body was sent, and its end. */
  readonly isWhole: boolean;
  /** Whether RFC 9113 or Latchkey's own rules forbid to forward it. */
  readonly isForbidden: boolean;
  readonly frames: readonly Buffer[];
}

/** What is done to a head, and whether the request may then be forwarded. */
const SPOILED: readonly ((pseudo: Field[], fields: Field[], random: Random) => boolean)[] = [
  (_pseudo, fields) => adds(fields, ['connection', 'close']),
  (_pseudo, fields) => adds(fields, ['transfer-encoding', 'chunked']),
  (_pseudo, fields) => adds(fields, ['te', 'gzip']),
  (_pseudo, fields) => adds(fields, ['host', 'b']),
  (_pseudo, fields) => adds(fields, [':path', '/other']),
  (pseudo) => adds(pseudo, [':method', 'GET']),
  (pseudo, _fields, random) => pseudo.splice(random.below(3), 1).length === 0,
  (pseudo, _fields, random) => sets(pseudo, 2, random.pick(['', '*', 'other', '//a', '/a#x', '/a HTTP/1.1', '/a/../x'])),
  (pseudo, _fields, random) => sets(pseudo, 0, random.pick(['CONNECT', 'TRACE', 'get', 'G T', 'PRI'])),
  // nghttp2 leaves out such a field, and Node does not tell.
  (_pseudo, fields) => !adds(fields, ['x-bad', 'a\r\nb: c']),
  (_pseudo, fields) => !adds(fields, ['x-bad', 'a\0']),
  (_pseudo, fields) => !adds(fields, ['x bad', 'a']),
  (_pseudo, fields) => !adds(fields, ['Upper', 'x']),
  (_pseudo, fields) => !adds(fields, ['', 'x']),
]; // prettier-ignore

/** Adds a field; the request may not be forwarded then. */
function adds(fields: Field[], field: Field): false {
  fields.push(field);
  return false;
}

function sets(pseudo: Field[], at: number, value: string): false {
  pseudo[at] = [(pseudo[at] as Field)[0], value];
  return false;
}

/** Makes a request on a stream: well-formed or not, whole or not. */
export function makeRequest(random: Random, stream: number, path: string, key: string): SentRequest {
  const method = random.pick(METHODS);
  const body = READS.has(method) ? '' : 'b'.repeat(random.pick([0, 1, 10, 3_000, 16_000]));
  const pseudo: Field[] = [[':method', method], [':scheme', 'https'], [':path', path], [':authority', 'a']];
  const fields: Field[] = [];
  if (random.oneIn(2)) fields.push(['service-key', random.pick([key, 'bad'])]);
  if (random.oneIn(4)) fields.push(['cookie', 'a=b'], ['cookie', 'c=d']);
  if (random.oneIn(6)) fields.push([random.pick(['x-auth-user-id', 'x_auth_user_id', 'x-auth.role']), 'root']);
  const length = random.pick(['none', 'none', 'right', 'wrong']);
  if (length !== 'none') fields.push(['content-length', String(body.length + (length === 'right' ? 0 : 1))]);
  const mayForward = !random.oneIn(4) || random.pick(SPOILED)(pseudo, fields, random);
  const endsWithHead = body === '' && random.oneIn(2);
  const head = headFrames(random, stream, block([...pseudo, ...fields]), endsWithHead ? END_STREAM : 0);
  const rest = endsWithHead ? { frames: [], ends: true } : bodyFrames(random, stream, body);
  const isEmpty = body === '' && length === 'right';
  return {
    method,
    body,
    isWhole: isEmpty || (rest.ends && length !== 'wrong'),
    isForbidden: !mayForward,
    frames: [...head, ...rest.frames],
  };
} // prettier-ignore

/** A head in one frame, in two, or padded. */
function headFrames(random: Random, stream: number, head: Buffer, flags: number): Buffer[] {
  if (random.oneIn(5)) {
    const cut = 1 + random.below(head.length - 1);
    const first = frame(HEADERS, flags, stream, head.subarray(0, cut));
    return [first, frame(CONTINUATION, END_HEADERS, stream, head.subarray(cut))];
  }
  if (random.oneIn(6)) return [frame(HEADERS, flags | END_HEADERS | PADDED, stream, padded(head))];
  return [frame(HEADERS, flags | END_HEADERS, stream, head)];
}

function padded(payload: Buffer): Buffer {
  return Buffer.concat([Buffer.from([3]), payload, Buffer.alloc(3)]);
}

/** A body in pieces that ends properly, with trailers, with a reset, or not at all. */
function bodyFrames(random: Random, stream: number, body: string): { frames: Buffer[]; ends: boolean } {
  const frames: Buffer[] = [];
  for (let at = 0; at < body.length;) {
    const piece = Buffer.from(body.slice(at, at + 1 + random.below(16_000)));
    at += piece.length;
    frames.push(random.oneIn(4) ? frame(DATA, PADDED, stream, padded(piece)) : frame(DATA, 0, stream, piece));
  }
  const way = random.below(8);
  if (way === 0) return { frames, ends: false };
  if (way === 1) return { frames: [...frames, frame(RST_STREAM, 0, stream, uint32(random.pick(CODES)))], ends: false };
  if (way > 3) return { frames: [...frames, frame(DATA, END_STREAM, stream)], ends: true };
  const isMalformed = way === 2;
  const trailers = block([['x-t', 'v'], ...(isMalformed ? ([[':path', '/x']] as const) : [])]);
  return { frames: [...frames, frame(HEADERS, END_HEADERS | END_STREAM, stream, trailers)], ends: !isMalformed };
} // prettier-ignore
