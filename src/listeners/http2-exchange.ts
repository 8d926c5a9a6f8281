import { validateHeaderName, validateHeaderValue } from 'node:http';
import {
  constants,
  Http2ServerRequest,
  Http2ServerResponse,
  type IncomingHttpHeaders,
  type ServerHttp2Stream,
} from 'node:http2';
import type { ReadableOptions } from 'node:stream';
import { CONNECTION_SPECIFIC } from '../http/http2-fields.js';

/** Streams that were broken off from this side. */
const brokenHere = new WeakSet<object>();

/** Whether a stream was broken off by its client, or for what its client sent. @param stream one that is closed */
export function brokenByClient(stream: ServerHttp2Stream): boolean {
  return stream.aborted && !brokenHere.has(stream);
}

/**
 * A request of HTTP/2 that behaves like one of HTTP/1.1: one that its client takes back in the middle never looks
 * whole. Node ends its body cleanly when the reset says NO_ERROR.
 */
export class Http2Request extends Http2ServerRequest {
  constructor(
    stream: ServerHttp2Stream,
    headers: IncomingHttpHeaders,
    options: ReadableOptions,
    rawHeaders: readonly string[],
  ) {
    super(stream, headers, options, rawHeaders);
    stream.once('aborted', () => this.destroy());
  }
}

/** An answer of HTTP/2 that takes what the request handler gives to one of HTTP/1.1: flat fields, a reason, pairs as trailers. */
export class Http2Response extends Http2ServerResponse<Http2Request> {
  /** Trailers may follow each body. */
  readonly chunkedEncoding = true;

  override writeHead(status: number, ...rest: unknown[]): this {
    const { stream } = this;
    if (isOver(this)) return this;
    const fields = rest.at(-1);
    stream.respond(
      { ':status': status, ...(Array.isArray(fields) ? fieldsByName(fields as string[]) : {}) },
      { waitForTrailers: true },
    );
    return this;
  }

  override addTrailers(trailers: unknown): void {
    super.addTrailers(fieldsByName((trailers as [string, string][]).flat()));
  }

  /** A body that is still coming is asked for no more (RFC 9113 8.1): it must not take up the connection. */
  override end(...rest: unknown[]): this {
    super.end(...(rest as [string]));
    const { stream, req } = this;
    if (!stream.destroyed && !stream.endAfterHeaders && !req.readableEnded) closeWhenSent(stream);
    return this;
  }

  /** Breaks the answer off; its client gets INTERNAL_ERROR, where node would say NO_ERROR, which looks like a clean end. */
  override destroy(): this {
    const { stream } = this;
    if (stream.destroyed || brokenHere.has(stream)) return this;
    brokenHere.add(stream);
    // Never within a read of the connection: see `keepOutOfReads`.
    setImmediate(() => stream.destroy(new Error('the answer was broken off')));
    return this;
  }
}

/**
 * Closes a stream when its answer is out. Closed before then, node keeps the reset back until the answer is out; a stream that
 * is destroyed meanwhile is never reset and leaves its answer in nghttp2, which then packs empty frames for ever: one
 * client took the process, and all memory (Node 20.20, `Http2Stream::SubmitRstStream`).
 */
function closeWhenSent(stream: ServerHttp2Stream): void {
  const close = (): void => {
    if (!stream.destroyed) stream.close(constants.NGHTTP2_NO_ERROR);
  };
  // Never at once: a head alone counts as sent before nghttp2 has it, and a reset would go before it (Node 26); and
  // this may run within a read of the connection, see `keepOutOfReads`.
  if (stream.writableFinished) setImmediate(close);
  else stream.once('finish', () => setImmediate(close));
}

// Node's types say that it is there, and its code does without.
Object.defineProperty(Http2Response.prototype, 'destroyed', {
  get(this: Http2Response) {
    return isOver(this);
  },
});

function isOver({ stream }: Http2Response): boolean {
  return stream.destroyed || stream.closed || brokenHere.has(stream);
}

/**
 * Fields as node takes them for HTTP/2. Lines of one name become one list (RFC 9110 5.3), because node refuses several lines
 * of some names; Set-Cookie is no list.
 *
 * Everything is checked here: trailers are given to node in an event, where an error would end the process.
 *
 * @throws TypeError for a name or value that can't be sent
 */
function fieldsByName(flat: readonly string[]): Record<string, string | string[]> {
  const byName = Object.create(null) as Record<string, string | string[]>;
  for (let i = 0; i < flat.length; i += 2) {
    const name = (flat[i] as string).toLowerCase();
    const value = flat[i + 1] as string;
    validateHeaderName(name);
    if (CONNECTION_SPECIFIC.has(name)) throw new TypeError(`the field ${name} is no part of HTTP/2`);
    validateHeaderValue(name, value);
    const known = byName[name];
    if (name === 'set-cookie') byName[name] = [known ?? [], value].flat();
    else byName[name] = known === undefined ? value : `${known as string}, ${value}`;
  }
  return byName;
}
