import { createHash } from 'node:crypto';
import { type ProbeResponse, valuesOf } from './message.js';

/** What a response says about a request: refused, let in, uncertain, or no response. */
export type Verdict = 'refused' | 'passed' | 'unclear' | 'none';

/** Statuses that count as refusals, from any server in front of the API. */
const REFUSALS: ReadonlySet<number> = new Set([
  400, 401, 403, 407, 411, 413, 414, 417, 421, 422, 426, 429, 431, 501, 503, 505,
]);

/**
 * Statuses by which Latchkey reports that it let a request through to an upstream that failed to
 * respond.
 */
const GATEWAY_FAULTS: ReadonlySet<number> = new Set([502, 504]);

const REDIRECTS: ReadonlySet<number> = new Set([301, 302, 303, 307, 308]);
/** Matches a part of a login URL. */
const LOGIN =
  /(?:^|[/._?&=-])(?:log-?in|sign-?in|_latchkey|sso|oauth2?|oidc|saml2?|authorize|auth)(?=[/._?&=-]|$)/i;

/** Returns the verdict of a response. */
export function verdictOf(answer: ProbeResponse): Verdict {
  const { status } = answer;
  if (status === 0) return 'none';
  if (REDIRECTS.has(status) && valuesOf(answer, 'location').some((to) => LOGIN.test(to))) return 'refused';
  if (status === 101 || (status >= 200 && status < 300) || status === 304) return 'passed';
  if (REFUSALS.has(status)) return 'refused';
  if (!isOfLatchkey(answer)) return 'unclear';
  return GATEWAY_FAULTS.has(status) ? 'passed' : 'refused';
}

/** Whether a response has the form of Latchkey's own: JSON with `msg`, and a request id. */
export function isOfLatchkey(answer: ProbeResponse): boolean {
  return (
    valuesOf(answer, 'content-type').join() === 'application/json' &&
    valuesOf(answer, 'x-request-id').length > 0 &&
    answer.body.startsWith('{"msg":"')
  );
}

/** Returns the message of a Latchkey response; empty for any other. */
export function messageOf(answer: ProbeResponse): string {
  return /^\{"msg":"([^"]*)"/.exec(answer.body)?.[1] ?? '';
}

/** Returns a digest of a response without the parts that change each time: dates, numbers, ids. */
export function shapeOf(answer: ProbeResponse): string {
  const { status, body } = answer;
  const [id = ''] = valuesOf(answer, 'x-request-id');
  const steady = (id === '' ? body : body.replaceAll(id, '#')).replaceAll(
    /[0-9a-f-]{8,}|[\w-]*\d[\w-]*/gi,
    '#',
  );
  return `${status}:${createHash('sha256').update(steady).digest('hex')}`;
}

/** Describes a response in a report. */
export function describeAnswer({ status, fault }: ProbeResponse): string {
  return status === 0 ? `no response (${fault})` : String(status);
}
