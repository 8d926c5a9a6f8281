/**
 * A parser for HTTP/1.1 messages that accepts only what RFC 9112 lets a sender generate: no bare CR
 * or LF, no folded lines, one length, one host, no chunk extensions. It shares no code with the
 * parsers under test.
 */

/** @import { Fault, StrictAnswer, StrictRequest } from './strict.mjs' */

const LINE =
  /^[!#$%&'*+.^_`|~0-9A-Za-z-]+:[ \t]*((?:[\x21-\x7e\x80-\xff](?:[\t\x20-\x7e\x80-\xff]*[\x21-\x7e\x80-\xff])?)?)[ \t]*$/;
const REQUEST = /^([A-Z]+) (\/[\x21\x22\x24-\x7e]*) HTTP\/1\.1$/;
const STATUS = /^HTTP\/1\.1 ([1-5]\d\d) [\t\x20-\x7e\x80-\xff]*$/;

/**
 * Parses the request that begins at an offset. Returns the request and its end, a fault, or
 * undefined if it is incomplete.
 *
 * @param {Buffer} bytes
 * @param {number} from
 * @returns {StrictRequest | Fault | undefined}
 */
export function readRequest(bytes, from) {
  const head = readHead(bytes, from, REQUEST);
  if (head === undefined || 'fault' in head) return head;
  const [, method, target] = head.start;
  const hosts = valuesOf(head.fields, 'host');
  if (hosts.length !== 1) return { fault: `${hosts.length} Host fields` };
  const body = readBody(bytes, head, false);
  if (body === undefined || 'fault' in body) return body;
  return { method, target, fields: head.fields, body: body.bytes, end: body.end };
}

/**
 * Parses the response that begins at an offset, to a request with this method. Interim responses
 * are returned one by one.
 *
 * @param ended whether the connection is closed, which ends a response without a length
 * @param {Buffer} bytes
 * @param {number} from
 * @param {string} method
 * @param {boolean} ended
 * @returns {StrictAnswer | Fault | undefined}
 */
export function readAnswer(bytes, from, method, ended) {
  const head = readHead(bytes, from, STATUS);
  if (head === undefined || 'fault' in head) return head;
  const status = Number(head.start[1]);
  const { fields } = head;
  if (status < 200 || status === 204 || status === 304 || method === 'HEAD') {
    return { status, fields, body: Buffer.alloc(0), end: head.end };
  }
  const framed = valuesOf(fields, 'content-length').length + valuesOf(fields, 'transfer-encoding').length;
  if (framed === 0) {
    return ended ? { status, fields, body: bytes.subarray(head.end), end: bytes.length } : undefined;
  }
  const body = readBody(bytes, head, true);
  if (body === undefined || 'fault' in body) return body;
  return { status, fields, body: body.bytes, end: body.end };
}

/**
 * Parses all responses on a connection to requests with these methods.
 *
 * @returns the final responses, how many bytes they took, and the fault, if any
 * @param {Buffer} bytes
 * @param {readonly string[]} methods
 * @param {boolean} ended
 */
export function readAnswers(bytes, methods, ended) {
  /** @type {StrictAnswer[]} */
  const answers = [];
  let from = 0;
  while (from < bytes.length) {
    const answer = readAnswer(bytes, from, methods[answers.length] ?? 'GET', ended);
    if (answer === undefined)
      return { answers, end: from, fault: ended ? 'the last answer is cut off' : undefined };
    if ('fault' in answer) return { answers, end: from, fault: answer.fault };
    from = answer.end;
    if (answer.status >= 200) answers.push(answer);
  }
  return { answers, end: from, fault: undefined };
}

/**
 * Returns the values of all fields with a lower-case name.
 *
 * @param {readonly [string, string][]} fields
 * @param {string} name
 */
export function valuesOf(fields, name) {
  return fields.filter(([each]) => each.toLowerCase() === name).map(([, value]) => value);
}

/**
 * @param {Buffer} bytes
 * @param {number} from
 * @param {RegExp} start
 * @returns {{ start: RegExpExecArray, fields: [string, string][], end: number } | Fault |
 *   undefined}
 */
function readHead(bytes, from, start) {
  const end = bytes.indexOf('\r\n\r\n', from, 'latin1');
  if (end < 0) return bytes.length - from > 65_536 ? { fault: 'a head over 64 KiB' } : undefined;
  const lines = bytes.toString('latin1', from, end).split('\r\n');
  const first = start.exec(lines[0]);
  if (first === null) return { fault: `the first line ${JSON.stringify(lines[0].slice(0, 200))}` };
  /** @type {[string, string][]} */
  const fields = [];
  for (const line of lines.slice(1)) {
    const found = LINE.exec(line);
    if (found === null) return { fault: `the line ${JSON.stringify(line.slice(0, 200))}` };
    fields.push([line.slice(0, line.indexOf(':')), found[1]]);
  }
  return { start: first, fields, end: end + 4 };
}

/**
 * @param {Buffer} bytes
 * @param {{ fields: [string, string][], end: number }} what
 * @param {boolean} trailers
 * @returns {{ bytes: Buffer, end: number } | Fault | undefined}
 */
function readBody(bytes, { fields, end }, trailers) {
  const lengths = valuesOf(fields, 'content-length');
  const codings = valuesOf(fields, 'transfer-encoding');
  if (lengths.length + codings.length > 1) return { fault: 'more than one framing' };
  if (codings.length === 1) {
    return codings[0].toLowerCase() === 'chunked'
      ? readChunks(bytes, end, trailers)
      : { fault: 'another coding' };
  }
  if (lengths.length === 0) return { bytes: Buffer.alloc(0), end };
  if (!/^\d+$/.test(lengths[0])) return { fault: `the length ${lengths[0]}` };
  const to = end + Number(lengths[0]);
  return to > bytes.length ? undefined : { bytes: bytes.subarray(end, to), end: to };
}

/**
 * @param {Buffer} bytes
 * @param {number} from
 * @param {boolean} trailers
 * @returns {{ bytes: Buffer, end: number } | Fault | undefined}
 */
function readChunks(bytes, from, trailers) {
  const parts = [];
  for (;;) {
    const eol = bytes.indexOf('\r\n', from, 'latin1');
    if (eol < 0) return bytes.length - from > 16 ? { fault: 'no chunk size' } : undefined;
    const size = bytes.toString('latin1', from, eol);
    if (!/^[0-9A-Fa-f]{1,8}$/.test(size)) return { fault: `the chunk size ${JSON.stringify(size)}` };
    from = eol + 2;
    const length = parseInt(size, 16);
    if (length === 0) break;
    if (from + length + 2 > bytes.length) return undefined;
    if (bytes.toString('latin1', from + length, from + length + 2) !== '\r\n')
      return { fault: 'the end of a chunk' };
    parts.push(bytes.subarray(from, from + length));
    from += length + 2;
  }
  for (;;) {
    const eol = bytes.indexOf('\r\n', from, 'latin1');
    if (eol < 0) return undefined;
    if (eol === from) return { bytes: Buffer.concat(parts), end: from + 2 };
    const line = bytes.toString('latin1', from, eol);
    if (!trailers || !LINE.test(line)) return { fault: `the trailer ${JSON.stringify(line)}` };
    from = eol + 2;
  }
}

/**
 * Returns the requests of bytes that are well-formed to the last one; undefined if they are not.
 *
 * @param {Buffer} bytes
 */
export function readRequests(bytes) {
  const requests = [];
  for (let from = 0; from < bytes.length; ) {
    const request = readRequest(bytes, from);
    if (request === undefined || 'fault' in request) return undefined;
    requests.push(request);
    from = request.end;
  }
  return requests;
} // prettier-ignore
