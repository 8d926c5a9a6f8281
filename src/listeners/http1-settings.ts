import type { Duplex } from 'node:stream';
import type { Refusal } from '../domain/refusal.js';
import type { ParsedRequest, Serve } from '../http/exchange.js';
import type { Reply } from '../http/replies.js';
import type { MessageLimits } from '../http1/limits.js';

/** A handshake that asks for another protocol on its connection, on which all answers before are written. */
export type UpgradeListener = (req: ParsedRequest, socket: Duplex, head: Buffer) => void;

/** The answer to what can't be read. @param req whose body that is; undefined when it is no part of a request */
export type RefusalAnswer = (refusal: Refusal, req?: ParsedRequest) => Reply;

/** What all connections of a port share. */
export interface Http1Settings {
  readonly limits: MessageLimits;
  /** Value of the Keep-Alive field. */
  readonly keepAliveHint: string;
  readonly serve: Serve;
  /** Null for a port that never changes protocols. */
  readonly upgrade: UpgradeListener | null;
  readonly answerOf: RefusalAnswer;
  /** Called with what can't be read. */
  readonly unreadable: (refusal: Refusal) => void;
  /** Called with an unexpected error; the connection is closed by then. */
  readonly fault: (error: unknown) => void;
}
