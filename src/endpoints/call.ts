import type { SessionSubject, Subject } from '../domain/credential.js';
import type { Refusal } from '../domain/refusal.js';
import type { EpochMs } from '../domain/time.js';
import type { Reply } from '../http/replies.js';
import type { Body } from '../http/body.js';
import type { RequestHead } from '../http/head.js';

/** A request to one of Latchkey's own endpoints, judged and with its body read. */
export interface Call {
  readonly head: RequestHead;
  /** The canonical path, in which parameters stand. */
  readonly path: string;
  readonly body: Body;
  /** Who sent it; null at an endpoint that checks a password itself. */
  readonly subject: Subject | null;
  readonly now: EpochMs;
}

/** Answers a call, with a body of one kind. A plain value in and out, so an endpoint is tested without a socket. */
export type Handler<Json = unknown> = (call: Call) => Promise<Reply<Json> | Refusal>;

/** Who sent a call to an endpoint that takes a credential. */
export function subjectOf(subject: Call['subject']): Subject {
  if (subject === null)
    throw new Error('the gate let a request without a subject to an endpoint that needs one');
  return subject;
}

/** Who sent a call to an endpoint that takes a session. */
export function sessionOf(subject: Call['subject']): SessionSubject {
  const known = subjectOf(subject);
  if (known.credential !== 'session')
    throw new Error('the gate let a token to an endpoint that takes a session');
  return known;
}
