/** A message as a parser read it. */
export interface Message {
  readonly method?: string | undefined;
  readonly target?: string | undefined;
  readonly status?: number | undefined;
  readonly reason?: string | undefined;
  readonly minor: number;
  readonly fields: readonly string[];
  readonly body: string;
  readonly trailers: readonly string[];
  readonly complete: boolean;
  readonly persistent?: boolean;
  /** Whether Node's parser would keep the connection open. */
  readonly keepAlive?: boolean | undefined;
  readonly upgrade?: boolean | undefined;
}
/** The result of parsing some bytes. */
export interface Reading {
  readonly messages: readonly Message[];
  readonly fault: string | undefined;
  readonly faultAt?: number | undefined;
  readonly closed?: boolean;
}
/** A parser of `src/http1`, for requests or responses. */
export interface Parser {
  readonly method?: string;
  readonly target?: string;
  readonly upgrade?: boolean;
  readonly status?: number;
  readonly reason?: string;
  readonly minor: number;
  readonly fields: readonly string[];
  readonly data: Buffer;
  readonly trailers: readonly string[];
  readonly persistent: boolean;
  readonly fault: string | undefined;
  readonly faultAt: number;
  feed(chunk: Buffer): void;
  next(): number;
  own(): void;
  finish(): void;
}
export function readWithCodec(parser: Parser, pieces: readonly Buffer[], ended?: boolean): Reading;
export function readWithNode(bytes: Buffer, method: string | undefined, ended?: boolean): Reading;
export function lenience(ours: Reading, theirs: Reading): string | undefined;
export function summarise(
  reading: Omit<Reading, 'faultAt'> & { readonly faultAt?: number | string | undefined },
): string[];
