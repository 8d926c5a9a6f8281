import type { Socket } from 'node:net';
import type { Refusal } from '../domain/refusal.js';
import type { ParsedRequest, Serve } from '../http/exchange.js';
import type { Reply } from '../http/replies.js';
import type { MessageLimits } from '../http1/events.js';
import type { UnreadableInput } from '../pipeline/access-log.js';

/** Receives a request to switch protocols; all earlier responses of its connection are written. */
export type UpgradeListener = (req: ParsedRequest, socket: Socket, head: Buffer) => void;

/** @param req the request whose body it is; undefined when it is not part of a request */
export type RefusalAnswer = (refusal: Refusal, req?: ParsedRequest) => Reply;

export interface Http1Settings {
  readonly limits: MessageLimits;
  readonly keepAliveHint: string;
  readonly serve: Serve;
  /** Null for a port that never switches protocols. */
  readonly upgrade: UpgradeListener | null;
  /** Receives a connection that begins with HTTP/2, unread; null for a port that refuses it. */
  readonly http2: ((socket: Socket) => void) | null;
  readonly answerOf: RefusalAnswer;
  readonly unreadable: (input: UnreadableInput) => void;
  /** Called with an unexpected error; the connection is closed by then. */
  readonly fault: (error: unknown) => void;
}
