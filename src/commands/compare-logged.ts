import type { Refusal } from '../domain/refusal.js';
import type { Explanation } from '../gate/explain.js';
import type { LoggedRequest } from './access-log.js';

/** The result of comparing a verdict with the log. */
export interface Comparison {
  /** `undetermined`: the outcome depended on something that the log does not hold. */
  readonly result: 'same' | 'differs' | 'undetermined';
  /** What the outcome depended on when the result is `undetermined`; otherwise null. */
  readonly reason: string | null;
}

/** Outcomes of requests that the rules allowed, whatever happened at the upstream. */
const ALLOWED: ReadonlySet<string> = new Set([
  'forwarded',
  'answered',
  'allowed',
  'aborted_by_client',
  'aborted_by_upstream',
  'ended_by_recheck',
  'upstream_unreachable',
  'upstream_broken',
  'upstream_too_slow',
]);

const AS_WRITTEN = 'how the request was written; the log has only its path';
const FAULT = 'the state of the server or of its stores at that time';

/** Refusals that follow from what the log and the store hold, and upstream failures. */
type Comparable =
  | 'unauthenticated'
  | 'token_expired'
  | 'address'
  | 'role'
  | 'scope'
  | 'service'
  | 'service_limited'
  | 'wrong_credential_kind'
  | 'other_customer'
  | 'active_tokens'
  | 'not_found'
  | 'upstream_unreachable'
  | 'upstream_broken'
  | 'upstream_too_slow';

/** Outcomes that depend on something the log does not hold, and what that is. */
const ELSEWHERE: Readonly<
  Record<Exclude<Refusal['refusal'], Comparable> | 'preflight' | 'preflight_refused' | 'aborted', string>
> = {
  malformed: AS_WRITTEN,
  several_credentials: AS_WRITTEN,
  method_not_allowed: AS_WRITTEN,
  expectation_failed: AS_WRITTEN,
  fields_too_large: AS_WRITTEN,
  target_too_long: AS_WRITTEN,
  body_too_large: 'the size of its body',
  too_slow: 'the time its body took',
  cross_origin: 'its header fields Origin and Sec-Fetch-Site',
  service_worker: 'its header fields, which request a service worker script',
  preflight: 'its header fields Origin and Access-Control-Request-*, by the CORS rules of the route',
  preflight_refused: 'its header fields Origin and Access-Control-Request-*, by the CORS rules of the route',
  malformed_check: 'what the proxy asked the decision port',
  own_endpoint: 'what the proxy asked the decision port',
  grant: 'the login in its body',
  login_throttled: 'the login in its body, and the attempts before it',
  other_user: 'the login in its body',
  rate_limited: 'how many writes the user had made in that hour',
  token_rate: 'how many requests the token had made',
  store_unavailable: FAULT,
  outcome_unknown: FAULT,
  account_source_unavailable: FAULT,
  key_set_unavailable: FAULT,
  audit_unavailable: FAULT,
  signing_unavailable: FAULT,
  overloaded: FAULT,
  fault: FAULT,
  aborted: 'the client, which had disconnected',
};

/**
 * Returns what determined the outcome of a request, other than its rules; undefined when the rules
 * did.
 */
export function decidedElsewhere({ outcome }: LoggedRequest): string | undefined {
  return Object.hasOwn(ELSEWHERE, outcome) ? ELSEWHERE[outcome as keyof typeof ELSEWHERE] : undefined;
}

/** Compares a verdict with the log entry of the request. */
export function compareWithLog(
  entry: LoggedRequest,
  { verdict, route, credential }: Explanation,
): Comparison {
  const wasAllowed =
    ALLOWED.has(entry.outcome) || (entry.outcome === 'aborted' && entry.decision === 'allowed');
  if (wasAllowed ? verdict.allowed : verdict.outcome === entry.outcome)
    return { result: 'same', reason: null };
  const elsewhere = wasAllowed ? undefined : decidedElsewhere(entry);
  if (elsewhere !== undefined) return undetermined(elsewhere);
  if (!wasAllowed && verdict.outcome === 'answer')
    return undetermined(`the endpoint ${verdict.endpoint}, by the body and the records of that time`);
  if (
    entry.caller === null &&
    credential === null &&
    verdict.outcome === 'unauthenticated' &&
    entry.outcome !== 'unauthenticated'
  )
    return undetermined('the credential: the entry names no caller, because the route required none');
  if (verdict.outcome === 'not_found' && route !== null && route.place === null && route.path.includes(':'))
    return undetermined('a record that its path names and that is no longer in the store');
  if ([verdict.outcome, entry.outcome].includes('active_tokens'))
    return undetermined('whether the user that its path names had active tokens, which may have changed');
  return { result: 'differs', reason: null };
}

/** Whether a verdict equals the logged one, including its detail if that was logged. */
export function agreesWithLog(entry: LoggedRequest, explanation: Explanation): boolean {
  const { detail } = explanation.verdict;
  return (
    compareWithLog(entry, explanation).result === 'same' && (entry.detail === null || entry.detail === detail)
  );
}

function undetermined(reason: string): Comparison {
  return { result: 'undetermined', reason };
}
