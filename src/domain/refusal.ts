import type { AuditEvent } from './audit.js';
import type { EpochMs } from './time.js';

/** Codes of what is wrong with a login or with what a new token is asked to be. */
export type GrantCode =
  | 'invalid_request'
  | 'invalid_grant'
  | 'account_locked'
  | '2fa.verify'
  | 'invalid_scope'
  | 'Unprocessable Entity';

/** What a 401 says of `Bearer` (RFC 6750 3): that it is taken, or also that the token sent so does not hold. */
export type BearerChallenge = 'taken' | 'invalid';

/**
 * A request that gets no further, as a value.
 *
 * The tag is the same word everywhere: here, in `http/replies` (which turns it into a status and a body),
 * in the log, in metrics, and in the documentation.
 */
export type Refusal =
  /** Not one well-formed request, or one that could be read in two ways. */
  | { readonly refusal: 'malformed'; readonly detail: string }
  | { readonly refusal: 'several_credentials'; readonly detail: string }
  | { readonly refusal: 'method_not_allowed'; readonly detail: string }
  | { readonly refusal: 'expectation_failed'; readonly detail: string }
  | { readonly refusal: 'body_too_large'; readonly detail: string }
  | { readonly refusal: 'fields_too_large'; readonly detail: string }
  | { readonly refusal: 'target_too_long'; readonly detail: string }
  | { readonly refusal: 'too_slow'; readonly detail: string }
  /** No credential, or one that is unknown, malformed, revoked or ended. All of these look the same. */
  | { readonly refusal: 'unauthenticated'; readonly bearer?: BearerChallenge }
  | {
      readonly refusal: 'token_expired';
      readonly tokenId: string;
      readonly expiredAt: EpochMs;
      readonly bearer?: BearerChallenge;
    }
  /** A valid credential that may not do this. */
  | {
      readonly refusal: 'role' | 'scope' | 'service' | 'service_limited';
      readonly action: string;
      readonly detail: string;
    }
  | { readonly refusal: 'wrong_credential_kind'; readonly detail: string }
  | { readonly refusal: 'cross_origin'; readonly detail: string }
  /** A script of a service worker, on a route that does not allow one. */
  | { readonly refusal: 'service_worker'; readonly detail: string }
  | { readonly refusal: 'other_customer'; readonly detail: string }
  /** The login name in the body is not that of the credential beside it. */
  | { readonly refusal: 'other_user'; readonly detail: string }
  | { readonly refusal: 'active_tokens' }
  /** A proxy asked for a decision and did not say about which request. */
  | { readonly refusal: 'malformed_check'; readonly detail: string }
  /** A proxy asked about a path that Latchkey serves itself. */
  | { readonly refusal: 'own_endpoint'; readonly detail: string }
  | { readonly refusal: 'not_found'; readonly detail: string }
  /** Errors of POST /login, POST /tokens and POST /sudo, with the code that the specification names. */
  | {
      readonly refusal: 'grant';
      readonly status: 400 | 401 | 403 | 422;
      readonly code: GrantCode;
      readonly detail: string;
      readonly bearer?: BearerChallenge;
      /** For the audit log; no part of the answer. */
      readonly auditEvents?: readonly AuditEvent[];
    }
  | {
      readonly refusal: 'login_throttled';
      readonly retryAfter: number;
      readonly auditEvents: readonly AuditEvent[];
    }
  /** A user's writes of this clock hour are used up. */
  | { readonly refusal: 'rate_limited'; readonly retryAfter: number; readonly resetAt: EpochMs }
  /** The client's address is not among those of its token. */
  | { readonly refusal: 'address'; readonly detail: string }
  /** The request rate of a token is used up. */
  | { readonly refusal: 'token_rate'; readonly retryAfter: number }
  | { readonly refusal: 'upstream_unreachable'; readonly detail: string }
  | { readonly refusal: 'upstream_broken'; readonly detail: string }
  | { readonly refusal: 'upstream_too_slow'; readonly detail: string }
  | { readonly refusal: 'store_unavailable' }
  /** A change was sent to the store and not confirmed: nobody knows whether it was made. */
  | { readonly refusal: 'outcome_unknown'; readonly auditEvents?: readonly AuditEvent[] }
  | { readonly refusal: 'account_source_unavailable' }
  /** The keys of an issuer of JWTs can't be fetched, and the ones known are not enough. */
  | { readonly refusal: 'key_set_unavailable' }
  /** `audit.required` is set and the audit log can't be written. */
  | { readonly refusal: 'audit_unavailable' }
  /** The assertion of a request that is let in can't be signed, and without it none is forwarded. */
  | { readonly refusal: 'signing_unavailable' }
  | { readonly refusal: 'overloaded'; readonly detail: string }
  | { readonly refusal: 'fault' };

/** A request that is not well-formed, or says one thing twice. @param detail for the client */
export function malformed(detail: string): Refusal {
  return { refusal: 'malformed', detail };
}
