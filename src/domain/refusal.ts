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
  | { readonly refusal: DetailedTag; readonly detail: string }
  | { readonly refusal: PlainTag }
  | {
      readonly refusal: 'method_not_allowed' | 'method_unknown';
      readonly detail: string;
      readonly method: string;
      readonly path: string;
    }
  | { readonly refusal: 'token_expired'; readonly tokenId: string; readonly expiredAt: EpochMs }
  | {
      readonly refusal: 'role' | 'scope' | 'service' | 'service_limited';
      readonly action: string;
      readonly detail: string;
    }
  | {
      readonly refusal: 'grant';
      readonly status: 400 | 401 | 403 | 422;
      readonly code: GrantCode;
      readonly detail: string;
    }
  | { readonly refusal: 'login_throttled' | 'token_rate'; readonly retryAfter: number }
  | { readonly refusal: 'rate_limited'; readonly retryAfter: number; readonly resetAt: EpochMs };

/** `other_user`: the login in the body, or the token to rotate, is not that of the credential's user. */
type DetailedTag =
  | 'malformed' | 'malformed_check' | 'several_credentials' | 'expectation_failed' | 'body_too_large'
  | 'fields_too_large' | 'target_too_long' | 'too_slow' | 'wrong_credential_kind' | 'cross_origin'
  | 'service_worker' | 'other_customer' | 'other_user' | 'own_endpoint' | 'not_found' | 'address'
  | 'upstream_unreachable' | 'upstream_broken' | 'upstream_too_slow' | 'overloaded'; // prettier-ignore

/** `unauthenticated`: any invalid credential; `outcome_unknown`: the store has not confirmed a change. */
type PlainTag =
  | 'unauthenticated' | 'active_tokens' | 'store_unavailable' | 'outcome_unknown' | 'account_source_unavailable'
  | 'key_set_unavailable' | 'audit_unavailable' | 'signing_unavailable' | 'fault'; // prettier-ignore

export function malformed(detail: string): Refusal {
  return { refusal: 'malformed', detail };
}

export function noEndpoint({ method, path }: { readonly method: string; readonly path: string }): Refusal {
  return { refusal: 'not_found', detail: `No endpoint for ${method} ${path}` };
}

export function noToken(id: string): Refusal {
  return { refusal: 'not_found', detail: `Cannot find token '${id}'` };
}

export function overloaded(detail: string): Refusal {
  return { refusal: 'overloaded', detail };
}

export const UNPROCESSABLE = { status: 422, code: 'Unprocessable Entity' } as const;

export function unprocessable(detail: string): Refusal {
  return { refusal: 'grant', ...UNPROCESSABLE, detail };
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
