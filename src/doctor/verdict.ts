import { createHash } from 'node:crypto';
import { type Answer, valuesOf } from './message.js';

/** What an answer says of a request: refused, let in, neither for sure, or there was no answer. */
export type Verdict = 'refused' | 'passed' | 'unclear' | 'none';

/** Statuses that refuse, whoever in front of the API gives them. */
const REFUSALS: ReadonlySet<number> = new Set([
  400, 401, 403, 407, 411, 413, 414, 417, 421, 426, 429, 431, 501, 503, 505,
]);

/** Statuses with which Latchkey says that it let a request through to an upstream that did not answer. */
const GATEWAY_FAULTS: ReadonlySet<number> = new Set([502, 504]);

/** Judges one answer. */
export function verdictOf(answer: Answer): Verdict {
  const { status } = answer;
  if (status === 0) return 'none';
  if (status === 101 || (status >= 200 && status < 300) || status === 304) return 'passed';
  if (REFUSALS.has(status)) return 'refused';
  if (!isOfLatchkey(answer)) return 'unclear';
  return GATEWAY_FAULTS.has(status) ? 'passed' : 'refused';
}

/** Whether an answer has the form of Latchkey's own: JSON with `msg`, a request id, never to be stored. */
export function isOfLatchkey(answer: Answer): boolean {
  return (
    valuesOf(answer, 'content-type').join() === 'application/json' &&
    valuesOf(answer, 'x-request-id').length > 0 &&
    answer.body.startsWith('{"msg":"')
  );
}

/** The message of an answer of Latchkey's; empty for any other. */
export function messageOf(answer: Answer): string {
  return /^\{"msg":"([^"]*)"/.exec(answer.body)?.[1] ?? '';
}

/** Digest of an answer without what changes each time: dates, numbers, ids. */
export function shapeOf({ status, body }: Answer): string {
  const steady = body.replaceAll(/[0-9a-f-]{8,}|\d+/gi, '#');
  return `${status}:${createHash('sha256').update(steady).digest('hex')}`;
}

/** Fields by which one server can be told from another. */
const MARKS: readonly string[] = ['server', 'x-powered-by', 'via', 'content-type'];

/** Whether an answer seems to come from another server than the refusal did. */
export function isForeign(answer: Answer, refusal: Answer): boolean {
  return MARKS.some((name) => valuesOf(answer, name).join() !== valuesOf(refusal, name).join());
}

/** How an answer is named in a report. */
export function describeAnswer({ status, fault }: Answer): string {
  return status === 0 ? `no answer (${fault})` : String(status);
}
