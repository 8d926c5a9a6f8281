import type { Length } from '../http1/write.js';
import type { Upload } from './upload.js';

/** A request as it is sent to one address. */
export interface UpstreamRequest {
  readonly method: string;
  /** With the path of the address. */
  readonly target: string;
  /** What the Host field says. */
  readonly host: string;
  /** Names and values, flat, without Host, Connection and framing. */
  readonly fields: readonly string[];
  readonly body: Upload | undefined;
  readonly length: Length;
  /** The connection takes no further request: an upstream that leaves the content unread would take it for the next one. */
  readonly closes: boolean;
}

/** Receives what becomes of a request. After `onResponseEnd` or `onResponseError` nothing more comes. */
export interface ResponseHandler {
  /** The connection that the request is, or will be, sent on. */
  connection: UpstreamExchange | undefined;
  /** From now on the upstream may have received something of it. */
  onRequestStart(): void;
  /** An informational answer (1xx) came. */
  onInformational(): void;
  /**
   * @param fields names and values, flat, in order; not to be changed
   * @param isWhole whether the answer is known to end with its head: in gRPC, its fields are trailers then
   */
  onResponseStart(status: number, reason: string, fields: readonly string[], isWhole?: boolean): void;
  onResponseData(chunk: Buffer): void;
  /** @param trailers as `fields` */
  onResponseEnd(trailers: readonly string[]): void;
  onResponseError(error: Error): void;
}

/** The connections to one address. */
export interface Dispatcher {
  /** Sends a request on a connection that has room, or on a new one. */
  dispatch(request: UpstreamRequest, handler: ResponseHandler): void;
  /** Closes all connections; their requests fail. */
  destroy(): void;
}

/** What the handler of a request can do to its connection. */
export interface UpstreamExchange {
  /** Reads nothing more from the upstream until {@link resume}. What was read already still comes. */
  pause(): void;
  resume(): void;
  /** Gives the request up; its handler receives the error. */
  abort(error: Error): void;
}
