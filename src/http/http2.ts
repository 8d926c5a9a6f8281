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

const BLOCK = 2_048;

/**
 * Bounds the memory of unread body data by the windows of HTTP/2. Node emits slices that keep their whole
 * read, of which frames that no window counts may be most: so small slices are copied, and joined while
 * nothing reads.
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
 * Defers destruction of a session out of reads of its connection, where a frame would leak and the process
 * abort with `current_nghttp2_memory_ == 0` (Node 20.20.2, `Http2Session::OnStreamAfterWrite`).
 * @param onDestroy called at once when the session is to be destroyed
 */
export function destroyBetweenReads(session: Http2Session, onDestroy?: () => void): void {
  const destroy = session.destroy.bind(session);
  session.destroy = (...args: Parameters<typeof destroy>) => {
    const [error] = args;
    onDestroy?.();
    // Its stack frames hold node's native session until the stack is read, which holds the socket, which holds
    // the error: no collection finds this cycle (Node 20 and 26).
    if (error instanceof Error) void error.stack;
    setImmediate(destroy, ...args);
  };
}

/** A GOAWAY with the highest stream id announces a shutdown and refuses no stream (RFC 9113 6.8). */
const ANY_STREAM = 2 ** 31 - 1;

/**
 * Keeps whatever ends a session or its streams out of reads, where nghttp2 would continue with freed memory:
 * destruction ({@link destroyBetweenReads}), and a GOAWAY that names a stream, which would free every later
 * one (`session_close_stream_on_goaway`). So it names none, except by {@link nameLastStream}.
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
 * Names the last stream that is served, after the end of its session was announced, so that the client sends
 * later ones elsewhere (RFC 9113 6.8): nghttp2 ignores them.
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
 * Fields that HPACK never indexes (RFC 7541 7.1.3): secrets, and what differs in each message, with which
 * nghttp2 would compare every value in its table.
 */
const NEVER_INDEXED: readonly string[] = ['set-cookie', 'x-request-id'];

/** A prototype without names: V8 makes an object without any prototype a hash table. */
const NO_NAMES: object = Object.freeze(Object.create(null));

/** Maximum bytes of a name or value (`NGHTTP2_HD_MAX_NV`). A longer one breaks the whole connection. */
const MAX_TEXT = 65_536;

const checkedNames = new NameCache<string>();

/**
 * Converts a flat list to the form that node accepts. Lines of one name stay several, because gRPC decodes
 * them one by one, except those of {@link ONE_LINE_LISTS} (RFC 9110 5.3), {@link SINGLE} and Cookie (RFC 9113
 * 8.2.3). All is validated here: node receives trailers in an event, where an error would end the process.
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
