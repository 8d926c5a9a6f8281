import type { EpochMs } from '../domain/time.js';

/** A header field, spelled as it is sent or was received. */
export type Field = readonly [name: string, value: string];

/** An HTTP/1.1 request. Only methods without side effects are available. */
export interface Probe {
  readonly method?: 'GET' | 'OPTIONS';
  readonly target: string;
  /** Value of `Host` instead of the URL's own. */
  readonly host?: string;
  readonly fields?: readonly Field[];
  /** Raw lines after the fields, without their line ends. */
  readonly lines?: readonly string[];
  /** Bytes after the head. */
  readonly body?: string;
  readonly version?: '1.0' | '1.1';
  /** Precedes the name of this program in `User-Agent`. */
  readonly agent?: string;
}

/** A response, or the lack of one. */
export interface ProbeResponse {
  /** 0 without a response. */
  readonly status: number;
  readonly fields: readonly Field[];
  /** At most {@link MAX_BODY} bytes, without the framing. */
  readonly body: string;
  /** Why there was no response: a Node.js error code, or `closed`. Empty otherwise. */
  readonly fault: string;
  /** Address of the server; empty without a connection. */
  readonly remote: string;
  readonly sentAt: EpochMs;
  readonly receivedAt: EpochMs;
  /** Whether the server keeps the connection open afterwards. */
  readonly isKept: boolean;
}

/** Maximum size of the body that is read, in bytes. */
export const MAX_BODY = 256 * 1024;

/** Returns the answer for a missing response. */
export function noResponse(fault: string, sentAt: EpochMs, remote = ''): ProbeResponse {
  return { status: 0, fields: [], body: '', fault, remote, sentAt, receivedAt: Date.now(), isKept: false };
}

/** Returns the values of a field. @param name in lower case */
export function valuesOf({ fields }: Pick<ProbeResponse, 'fields'>, name: string): string[] {
  return fields.filter(([field]) => field.toLowerCase() === name).map(([, value]) => value);
}

/** Returns the text in which a value that was sent may be echoed. */
export function textOf({ fields, body }: ProbeResponse): string {
  return `${fields.map(([name, value]) => `${name}: ${value}`).join('\n')}\n\n${body}`;
}
