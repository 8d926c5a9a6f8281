import type { EpochMs } from '../util/time.js';
import type { AuditEvent } from './audit.js';

export type GrantCode =
  | 'invalid_request'
  | 'invalid_grant'
  | 'account_locked'
  | '2fa.verify'
  | 'invalid_scope'
  | 'Unprocessable Entity';

/** A refused request, as a value. Its tag is the same word in replies, log, metrics and documentation. */
export type Refusal = RefusalKind & {
  /** What happened before the refusal, for the audit log; not part of the response. */
  readonly auditEvents?: readonly AuditEvent[];
};

type RefusalKind =
  | { readonly refusal: 'malformed'; readonly detail: string }
  | { readonly refusal: 'several_credentials'; readonly detail: string }
  | {
      readonly refusal: 'method_not_allowed' | 'method_unknown';
      readonly detail: string;
      readonly method: string;
      readonly path: string;
    }
  | { readonly refusal: 'expectation_failed'; readonly detail: string }
  | { readonly refusal: 'body_too_large'; readonly detail: string }
  | { readonly refusal: 'fields_too_large'; readonly detail: string }
  | { readonly refusal: 'target_too_long'; readonly detail: string }
  | { readonly refusal: 'too_slow'; readonly detail: string }
  /** No credential, or one that is unknown, malformed, revoked or ended; all get the same response. */
  | { readonly refusal: 'unauthenticated' }
  | { readonly refusal: 'token_expired'; readonly tokenId: string; readonly expiredAt: EpochMs }
  | {
      readonly refusal: 'role' | 'scope' | 'service' | 'service_limited';
      readonly action: string;
      readonly detail: string;
    }
  | { readonly refusal: 'wrong_credential_kind'; readonly detail: string }
  | { readonly refusal: 'cross_origin'; readonly detail: string }
  | { readonly refusal: 'service_worker'; readonly detail: string }
  | { readonly refusal: 'other_customer'; readonly detail: string }
  /** The login name in the body, or the token to rotate, belongs to another user than the credential. */
  | { readonly refusal: 'other_user'; readonly detail: string }
  | { readonly refusal: 'active_tokens' }
  | { readonly refusal: 'malformed_check'; readonly detail: string }
  | { readonly refusal: 'own_endpoint'; readonly detail: string }
  | { readonly refusal: 'not_found'; readonly detail: string }
  | {
      readonly refusal: 'grant';
      readonly status: 400 | 401 | 403 | 422;
      readonly code: GrantCode;
      readonly detail: string;
    }
  | { readonly refusal: 'login_throttled'; readonly retryAfter: number }
  | { readonly refusal: 'rate_limited'; readonly retryAfter: number; readonly resetAt: EpochMs }
  | { readonly refusal: 'address'; readonly detail: string }
  | { readonly refusal: 'token_rate'; readonly retryAfter: number }
  | { readonly refusal: 'upstream_unreachable'; readonly detail: string }
  | { readonly refusal: 'upstream_broken'; readonly detail: string }
  | { readonly refusal: 'upstream_too_slow'; readonly detail: string }
  | { readonly refusal: 'store_unavailable' }
  /** A change was sent to the store but not confirmed: it may or may not have been made. */
  | { readonly refusal: 'outcome_unknown' }
  | { readonly refusal: 'account_source_unavailable' }
  /** The keys of a JWT issuer cannot be fetched, and the known ones are not sufficient. */
  | { readonly refusal: 'key_set_unavailable' }
  | { readonly refusal: 'audit_unavailable' }
  /** The assertion of an allowed request cannot be signed; no request is forwarded without one. */
  | { readonly refusal: 'signing_unavailable' }
  | { readonly refusal: 'overloaded'; readonly detail: string }
  | { readonly refusal: 'fault' };

export function malformed(detail: string): Refusal {
  return { refusal: 'malformed', detail };
}

export function withAuditEvents(refusal: Refusal, before: readonly AuditEvent[]): Refusal {
  return { ...refusal, auditEvents: [...before, ...(refusal.auditEvents ?? [])] };
}

/** The store, the audit log, the signing keys or an API of users cannot answer now. */
export class Unavailable extends Error {
  /** The request is not let through, and not answered with a login prompt. */
  readonly refusal: Refusal;

  constructor(refusal: Refusal, message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = 'Unavailable';
    this.refusal = refusal;
  }
}
