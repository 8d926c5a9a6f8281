import type { Length } from '../http1/write.js';
import type { Upload } from './upload.js';

/** A request in the form that is sent to one address. */
export interface UpstreamRequest {
  readonly method: string;
  /** The target, with the address's path prefix. */
  readonly target: string;
  /** Value of the Host field. */
  readonly host: string;
  /** Flat list of names and values, without Host, Connection and framing fields. */
  readonly fields: readonly string[];
  readonly body: Upload | undefined;
  readonly length: Length;
  /**
   * Whether to close the connection after the request: an upstream that ignores unexpected content
   * would parse it as the next request, or the request authenticates the connection.
   */
  readonly closes: boolean;
}

/** Receives the response to a request. `onResponseEnd` or `onResponseError` is the last call. */
export interface ResponseHandler {
  /** The connection that the request is sent on, or will be. */
  connection: UpstreamExchange | undefined;
  /** Called just before the upstream may receive part of the request. */
  onRequestStart(): void;
  /** Called for an informational response (1xx). */
  onInformational(): void;
  /**
   * @param fields flat list of names and values, in order; must not be modified
   * @param isWhole whether the response is known to end with its head: in gRPC,
   *   its fields are trailers
   */
  onResponseStart(status: number, reason: string, fields: readonly string[], isWhole?: boolean): void;
  /** Called when what arrived with the head is passed on, unless the response has ended by then. */
  onReadEnd(): void;
  /** @param chunk stays as it is unless {@link UpstreamExchange.release} is called */
  onResponseData(chunk: Buffer): void;
  /** @param trailers flat, like `fields` */
  onResponseEnd(trailers: readonly string[]): void;
  onResponseError(error: Error): void;
}

/** A pool of connections to one address. */
export interface Dispatcher {
  /**
   * Sends a request on a connection with room, or on a new one.
   *
   * @param isRepeated whether it was just sent to this address in vain: idle connections of HTTP/1.1
   *   may have closed like the one that it was sent on, so it gets a new one
   */
  dispatch(request: UpstreamRequest, handler: ResponseHandler, isRepeated?: boolean): void;
  /** Closes all connections; their requests fail. */
  destroy(): void;
}

/** Controls the connection of a request, for its handler. */
export interface UpstreamExchange {
  /** Stops reading from the upstream until {@link resume}. Data already read is still delivered. */
  pause(): void;
  resume(): void;
  /** Releases the data of `onResponseData`, during that call: it may be overwritten. */
  release?(): void;
  /** Aborts the request; its handler receives the error. */
  abort(error: Error): void;
}
