import type { EpochMs } from '../domain/time.js';

/** A header field as a name and a value, in the spelling in which it is sent or came. */
export type Field = readonly [name: string, value: string];

/** A request of HTTP/1.1. Only methods without side effects exist here. */
export interface Probe {
  readonly method?: 'GET' | 'OPTIONS';
  readonly target: string;
  /** Instead of the URL's own. */
  readonly host?: string;
  readonly fields?: readonly Field[];
  /** Lines as they are sent, without their end, after the fields. */
  readonly lines?: readonly string[];
  /** Bytes after the head. */
  readonly body?: string;
  readonly version?: '1.0' | '1.1';
  /** Goes before the name of this program. */
  readonly agent?: string;
}

/** What came back. */
export interface Answer {
  /** 0 when none came. */
  readonly status: number;
  readonly fields: readonly Field[];
  /** At most {@link MAX_BODY} bytes, without the framing. */
  readonly body: string;
  /** Why none came: a code of Node, or `closed`. Empty otherwise. */
  readonly fault: string;
  /** The address that was connected to; empty without a connection. */
  readonly remote: string;
  readonly sentAt: EpochMs;
  readonly receivedAt: EpochMs;
  /** Whether the server keeps the connection open after it. */
  readonly isKept: boolean;
}

/** Longest body that is read, in bytes. */
export const MAX_BODY = 256 * 1024;

/** An answer that did not come. */
export function noAnswer(fault: string, sentAt: EpochMs, remote = ''): Answer {
  return { status: 0, fields: [], body: '', fault, remote, sentAt, receivedAt: Date.now(), isKept: false };
}

/** The values of a field. */
export function valuesOf({ fields }: Pick<Answer, 'fields'>, name: string): string[] {
  return fields.filter(([field]) => field.toLowerCase() === name).map(([, value]) => value);
}

/** Everything in which a value that was sent may come back. */
export function textOf({ fields, body }: Answer): string {
  return `${fields.map(([name, value]) => `${name}: ${value}`).join('\n')}\n\n${body}`;
}
