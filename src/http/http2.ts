import { validateHeaderName, validateHeaderValue } from 'node:http';
import {
  constants,
  type Http2Session,
  type Http2Stream,
  sensitiveHeaders,
  type ServerHttp2Session,
} from 'node:http2';
import { joinValues, NameCache } from './fields.js';
import { binaryValues, CONNECTION_SPECIFIC, isBinaryName, ONE_LINE_LISTS, SINGLE } from './http2-fields.js';

/** Size of the blocks to which small chunks are copied, in bytes. */
const BLOCK = 2_048;

/**
 * Bounds the memory of unread body data by the windows of HTTP/2.
 *
 * Node emits each DATA frame as a slice of the read that it arrived in, and the slice keeps that
 * read: one byte between frames that no window counts, such as unknown ones, occupied up to 64 KiB.
 * So a chunk that is the smaller part of its read is copied. While nothing reads the stream, such
 * chunks are joined, because each one alone takes a hundred bytes more.
 *
 * @param arrived receives the size of each chunk
 * @param resumed called when the stream is to be read again
 */
export function compactReads(
  stream: Http2Stream,
  arrived: (bytes: number) => void = ignore,
  resumed: () => void = ignore,
): void {
  const push = stream.push.bind(stream);
  const resume = stream.resume.bind(stream);
  let block = Buffer.alloc(0);
  /** The part of the block that is not pushed yet. */
  let from = 0;
  let end = 0;
  const flush = (): boolean => {
    if (from === end) return true;
    const joined = block.subarray(from, end);
    from = end;
    return push(joined);
  };
  const copy = (chunk: Buffer): boolean => {
    let accepts = true;
    if (chunk.length > block.length - end) {
      accepts = flush();
      // Not a part of the pool, which newer versions of Node make larger than a read.
      block = Buffer.allocUnsafeSlow(Math.max(BLOCK, chunk.length));
      from = end = 0;
    }
    end += chunk.copy(block, end);
    return stream.readableFlowing === true ? flush() : accepts;
  };
  stream.push = (chunk: Buffer | null) => {
    if (chunk !== null) arrived(chunk.length);
    if (chunk !== null && 2 * chunk.length < chunk.buffer.byteLength) return copy(chunk);
    flush();
    return push(chunk);
  };
  stream.resume = () => {
    flush();
    resumed();
    return resume();
  };
}

function ignore(): void {
  return undefined;
}

/**
 * Defers destruction of a session so that it never happens within a read of its connection.
 *
 * Node itself destroys a session for an invalid frame in the middle of a read. A frame leaks, and
 * the process aborts at the next garbage collection with `current_nghttp2_memory_ == 0` (Node
 * 20.20.2, `Http2Session::OnStreamAfterWrite`).
 *
 * @param onDestroy called at once when the session is to be destroyed
 */
export function destroyBetweenReads(session: Http2Session, onDestroy?: () => void): void {
  const destroy = session.destroy.bind(session);
  session.destroy = (...args: Parameters<typeof destroy>) => {
    const [error] = args;
    onDestroy?.();
    if (error instanceof Error) releaseFrames(error);
    setImmediate(destroy, ...args);
  };
}

/**
 * Releases the stack frames that an error retains.
 *
 * V8 keeps the functions and receivers of the frames until the stack is first read, and one of them
 * is node's native session. SETTINGS that the client never acknowledges keep the session alive. The
 * session keeps its socket, and the socket keeps the error that ended it. This cycle runs through
 * native memory, so no collection finds it (22 KiB per such connection, Node 20 and 26).
 */
function releaseFrames(error: Error): void {
  void error.stack;
}

/**
 * The highest stream id. A GOAWAY with it announces a shutdown and refuses
 * no stream (RFC 9113 6.8).
 */
const ANY_STREAM = 2 ** 31 - 1;

/**
 * Keeps whatever ends a session or its streams out of reads of its connection.
 *
 * Node runs JavaScript while nghttp2 reads. A reset from there makes nghttp2 send at once, within
 * its own call. That frees what the reset ends, and the read then continues with freed memory:
 *
 * - Node destroys a session in the middle of a read: see {@link destroyBetweenReads}.
 * - Node refuses a new stream of a closing session with a reset. If the session's GOAWAY is still
 *   queued, sending it frees every stream above the one that it names, including the one being
 *   read, and corrupts the heap (`session_close_stream_on_goaway`). Therefore a GOAWAY names no
 *   stream, except by {@link nameLastStream}; a refused stream gets a reset.
 */
export function deferOutOfReads(session: ServerHttp2Session): void {
  destroyBetweenReads(session);
  const goaway = session.goaway.bind(session);
  let named = ANY_STREAM;
  session.goaway = (code = constants.NGHTTP2_NO_ERROR, lastStream = 0, data?: NodeJS.ArrayBufferView) => {
    if (lastStream > 0) named = lastStream;
    goaway(code, named, data);
  };
}

/**
 * Names the last stream that is served, after the end of its session was announced.
 *
 * Once a GOAWAY is sent, nghttp2 ignores new streams, whatever the GOAWAY names. Without a second
 * one, their client would await responses for as long as another stream is open. Now it knows that
 * they were not processed, and may send them elsewhere (RFC 9113 6.8).
 *
 * @param session one outside of a read
 */
export function nameLastStream(session: ServerHttp2Session): void {
  if (session.destroyed) return;
  const { lastProcStreamID: last = 0, outboundQueueSize } = session.state;
  // While the first GOAWAY is queued, new streams are still read: see `deferOutOfReads`.
  if (outboundQueueSize === 0) session.goaway(constants.NGHTTP2_NO_ERROR, last);
}

/** Header fields in the form that `node:http2` accepts. */
export interface Http2Fields {
  [name: string]: string | string[];
  [flag: typeof sensitiveHeaders]: readonly string[];
}

/**
 * Fields that HPACK never indexes (RFC 7541 7.1.3): secrets, and what differs in each message.
 *
 * nghttp2 compares a value with every value of that name in its table, so a table full of request
 * ids was a tenth of the cost of an HTTP/2 request.
 */
const NEVER_INDEXED: readonly string[] = ['set-cookie', 'x-request-id'];

/**
 * The prototype of {@link Http2Fields}, so that no name is inherited. V8 fills and copies such an
 * object four times as fast as one without a prototype, which is always a hash table.
 */
const NO_NAMES: object = Object.freeze(Object.create(null));

/** Maximum bytes of a name or value (`NGHTTP2_HD_MAX_NV`). A longer one breaks the whole connection. */
const MAX_TEXT = 65_536;

/** Lower-case names that passed validation, by name as given. */
const checkedNames = new NameCache<string>();

/**
 * Converts a flat list of fields to the form that node accepts for HTTP/2.
 *
 * Several lines of one name stay several: a value of gRPC metadata may contain a comma, and binary
 * values are decoded line by line. Those of {@link ONE_LINE_LISTS} are joined (RFC 9110 5.3), of
 * those in {@link SINGLE} the first is sent, and several Cookie fields become one (RFC 9113 8.2.3).
 *
 * All names and values are validated here: node receives trailers in an event, where an
 * error would end the process.
 *
 * @throws TypeError for a name or value that cannot be sent
 */
export function http2Fields(flat: readonly string[]): Http2Fields {
  const byName = Object.create(NO_NAMES) as Http2Fields;
  byName[sensitiveHeaders] = NEVER_INDEXED;
  for (let i = 0; i < flat.length; i += 2) {
    const sent = flat[i] as string;
    const name = checkedNames.get(sent) ?? checkName(sent);
    const value = flat[i + 1] as string;
    checkValue(name, value);
    const known = byName[name];
    // gRPC libraries decode each line, so a list of binary values must be split.
    if (value.includes(',') && isBinaryName(name)) byName[name] = [known ?? [], binaryValues(value)].flat();
    else byName[name] = known === undefined ? value : withValue(name, known, value);
  }
  return byName;
}

/** @throws TypeError for a joined value that cannot be sent */
function withValue(name: string, known: string | string[], value: string): string | string[] {
  if (Array.isArray(known)) {
    known.push(value);
    return known;
  }
  if (SINGLE.has(name)) return known;
  if (name !== 'cookie' && !ONE_LINE_LISTS.has(name)) return [known, value];
  const joined = joinValues(known, value, name === 'cookie' ? '; ' : ', ');
  checkLength(name, joined);
  return joined;
}

/** @throws TypeError for a value that cannot be sent */
export function checkValue(name: string, value: string): void {
  validateHeaderValue(name, value);
  checkLength(name, value);
}

/** @throws TypeError */
function checkLength(name: string, { length }: string): void {
  if (length > MAX_TEXT) throw new TypeError(`the header ${name.slice(0, 64)} is too long for HTTP/2`);
}

/** @throws TypeError */
function checkName(sent: string): string {
  const name = sent.toLowerCase();
  validateHeaderName(name);
  checkLength(name, name);
  if (CONNECTION_SPECIFIC.has(name)) throw new TypeError(`the header ${name} is not allowed in HTTP/2`);
  checkedNames.add(sent, name);
  return name;
}
