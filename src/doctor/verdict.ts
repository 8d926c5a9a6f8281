import { createHash } from 'node:crypto';
import { type Answer, valuesOf } from './message.js';

/** What an answer says of a request: refused, let in, neither for sure, or there was no answer. */
export type Verdict = 'refused' | 'passed' | 'unclear' | 'none';

/** Statuses that refuse, whoever in front of the API gives them. */
const REFUSALS: ReadonlySet<number> = new Set([
  400, 401, 403, 407, 411, 413, 414, 417, 421, 422, 426, 429, 431, 501, 503, 505,
]);

/** Statuses with which Latchkey says that it let a request through to an upstream that did not answer. */
const GATEWAY_FAULTS: ReadonlySet<number> = new Set([502, 504]);

const REDIRECTS: ReadonlySet<number> = new Set([301, 302, 303, 307, 308]);
/** A part of an address where people log in. */
const LOGIN =
  /(?:^|[/._?&=-])(?:log-?in|sign-?in|_latchkey|sso|oauth2?|oidc|saml2?|authorize|auth)(?=[/._?&=-]|$)/i;

/** Judges one answer. */
export function verdictOf(answer: Answer): Verdict {
  const { status } = answer;
  if (status === 0) return 'none';
  if (REDIRECTS.has(status) && valuesOf(answer, 'location').some((to) => LOGIN.test(to))) return 'refused';
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
export function shapeOf(answer: Answer): string {
  const { status, body } = answer;
  const [id = ''] = valuesOf(answer, 'x-request-id');
  const steady = (id === '' ? body : body.replaceAll(id, '#')).replaceAll(
    /[0-9a-f-]{8,}|[\w-]*\d[\w-]*/gi,
    '#',
  );
  return `${status}:${createHash('sha256').update(steady).digest('hex')}`;
}

/** How an answer is named in a report. */
export function describeAnswer({ status, fault }: Answer): string {
  return status === 0 ? `no answer (${fault})` : String(status);
}
