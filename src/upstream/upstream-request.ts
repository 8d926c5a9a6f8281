import type { Length } from '../http1/write.js';
import type { Upload } from './upload.js';

export interface UpstreamRequest {
  readonly method: string;
  readonly target: string;
  readonly host: string;
  /** Flat list of names and values, without Host, Connection and framing fields. */
  readonly fields: readonly string[];
  readonly body: Upload | undefined;
  readonly length: Length;
  /**
   * Whether to close the connection after the request: an upstream that ignores unexpected content would
   * parse it as the next request, or the request authenticates the connection.
   */
  readonly closes: boolean;
}

/** Receives the response to a request. `onResponseEnd` or `onResponseError` is the last call. */
export interface ResponseHandler {
  connection: UpstreamExchange | undefined;
  /** Called just before the upstream may receive part of the request. */
  onRequestStart(): void;
  onInformational(): void;
  /** @param isWhole whether the response is known to end with its head: in gRPC, its fields are trailers */
  onResponseStart(status: number, reason: string, fields: readonly string[], isWhole?: boolean): void;
  /** Called when what arrived with the head is passed on, unless the response has ended by then. */
  onReadEnd(): void;
  /** @param chunk stays as it is unless {@link UpstreamExchange.release} is called */
  onResponseData(chunk: Buffer): void;
  onResponseEnd(trailers: readonly string[]): void;
  onResponseError(error: Error): void;
}

export interface Dispatcher {
  /** @param isRepeated whether it was just sent to this address in vain, so that it gets a new connection */
  dispatch(request: UpstreamRequest, handler: ResponseHandler, isRepeated?: boolean): void;
  destroy(): void;
}

export interface UpstreamExchange {
  /** Stops reading from the upstream until {@link resume}. Data already read is still delivered. */
  pause(): void;
  resume(): void;
  /** Releases the data of `onResponseData`, during that call: it may be overwritten. */
  release?(): void;
  abort(error: Error): void;
}
