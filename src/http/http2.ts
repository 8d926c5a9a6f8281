import { constants, type Http2Session, type ServerHttp2Session } from 'node:http2';
import { validateHeaderName, validateHeaderValue } from 'node:http';
import { CONNECTION_SPECIFIC } from './http2-fields.js';

/**
 * Makes a session that is destroyed between reads of its connection, never within one, by node either. Node destroys it for a
 * wrong frame in the middle of a read: a frame is leaked, and the process aborts at the next collection with
 * `current_nghttp2_memory_ == 0` (Node 20.20.2, `Http2Session::OnStreamAfterWrite`).
 *
 * @param doomed called at once when it is to be destroyed
 */
export function destroyBetweenReads(session: Http2Session, doomed?: () => void): void {
  const destroy = session.destroy.bind(session);
  session.destroy = (...args: Parameters<typeof destroy>) => {
    const [error] = args;
    doomed?.();
    if (error instanceof Error) releaseFrames(error);
    setImmediate(destroy, ...args);
  };
}

/**
 * Lets go of the functions and receivers that an error was made in. V8 keeps them until the stack is read for the first time,
 * and one of them is node's native session. Settings that the client never acknowledges keep the session, which keeps its
 * socket, which keeps the error that ended it: a circle through native memory, which no collection sees (22 KiB for each
 * such connection, Node 20 and 26).
 */
function releaseFrames(error: Error): void {
  void error.stack;
}

/** The highest stream id: a GOAWAY that says that the end is near, and nothing of any stream (RFC 9113 6.8). */
const ANY_STREAM = 2 ** 31 - 1;

/**
 * Keeps what ends a session or its streams out of reads of its connection. Node runs JavaScript while nghttp2 reads, and a
 * reset in it makes nghttp2 send at once, within its own call. What that ends is freed, and the read goes on with it:
 *
 * - Node destroys a session in the middle of a read: see {@link destroyBetweenReads}.
 * - Node refuses a new stream of a session that is closing with a reset. If the GOAWAY of that session waits to be sent,
 *   it frees every stream above the one that it names, and so the one that is being read: the heap is corrupted
 *   (`session_close_stream_on_goaway`). So a GOAWAY names no stream; a refused one gets a reset.
 */
export function keepOutOfReads(session: ServerHttp2Session): void {
  destroyBetweenReads(session);
  const goaway = session.goaway.bind(session);
  session.goaway = (code = constants.NGHTTP2_NO_ERROR, _lastStream?: number, data?: NodeJS.ArrayBufferView) =>
    goaway(code, ANY_STREAM, data);
}

/** Fields as `node:http2` takes them. */
export type Http2Fields = Record<string, string | string[]>;

/** Names in lower case, of which each was checked. Upstreams and clients choose them, so there is a bound. */
const checkedNames = new Map<string, string>();
const MAX_CHECKED = 1_000;

/**
 * Fields as node takes them for HTTP/2. Lines of one name become one list (RFC 9110 5.3), because node refuses several lines
 * of some names; Set-Cookie is no list, and several Cookie fields are one (RFC 9113 8.2.3).
 *
 * Everything is checked here: trailers are given to node in an event, where an error would end the process.
 *
 * @throws TypeError for a name or value that can't be sent
 */
export function http2Fields(flat: readonly string[]): Http2Fields {
  const byName = Object.create(null) as Http2Fields;
  for (let i = 0; i < flat.length; i += 2) {
    const sent = flat[i] as string;
    const name = checkedNames.get(sent) ?? checkName(sent);
    const value = flat[i + 1] as string;
    validateHeaderValue(name, value);
    const known = byName[name];
    if (name === 'set-cookie') byName[name] = [known ?? [], value].flat();
    else if (known === undefined) byName[name] = value;
    else byName[name] = `${known as string}${name === 'cookie' ? '; ' : ', '}${value}`;
  }
  return byName;
}

/** @throws TypeError */
function checkName(sent: string): string {
  const name = sent.toLowerCase();
  validateHeaderName(name);
  if (CONNECTION_SPECIFIC.has(name)) throw new TypeError(`the field ${name} is not part of HTTP/2`);
  if (checkedNames.size < MAX_CHECKED) checkedNames.set(sent, name);
  return name;
}
