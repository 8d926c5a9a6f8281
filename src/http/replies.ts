import type { AuditEvent } from '../domain/audit.js';
import type { CorsAnswer } from '../domain/cors.js';
import type { BearerChallenge, Refusal } from '../domain/refusal.js';
import { formatTime } from '../domain/time.js';
import { addVary } from './fields.js';

/** An answer of Latchkey's own: a status, fields as a flat list, and a JSON value or content unless it has no body. */
export interface Reply<Json = unknown> {
  readonly status: number;
  readonly headers?: readonly string[];
  readonly json?: Json;
  /** The same as text, where it is always the same. */
  readonly text?: string;
  /** For the audit log; no part of what is sent. */
  readonly auditEvents?: readonly AuditEvent[];
  /** What is sent instead, once the audit events are written: something has to be waited for first. */
  readonly after?: () => Promise<Reply<Json>>;
  /** Seconds that anybody may keep it; without this it is never stored. */
  readonly maxAge?: number;
  /** It has no body, and no length either. */
  readonly endsWithHead?: boolean;
  /** A body that is no JSON: a file of the web page. */
  readonly content?: Content;
}

/** A body as it goes out. */
export interface Content {
  readonly type: string;
  readonly bytes: Buffer;
  /** May be kept for good, because another content would have another name; else it is never stored. */
  readonly immutable: boolean;
}

/** Seconds after which it makes sense to ask again when the store or this process could not serve. */
const RETRY_SECONDS = 1;

/**
 * Turns a refusal into its answer. It is the only place that does, so two refusals of one kind are
 * the same bytes, and a new kind does not compile until it is answered here.
 */
export function refusalReply(refusal: Refusal): Reply {
  switch (refusal.refusal) {
    case 'malformed':
    case 'several_credentials':
    case 'service_worker':
      return problem(400, 'Bad request', refusal.detail);
    case 'unauthenticated':
      return UNAUTHENTICATED[refusal.bearer ?? 'not taken'];
    case 'token_expired':
      return challenge(refusal.bearer, {
        msg: `Token ${refusal.tokenId} expired at ${formatTime(refusal.expiredAt)}`,
      });
    case 'role':
    case 'scope':
    case 'service':
    case 'service_limited':
    case 'wrong_credential_kind':
    case 'cross_origin':
    case 'other_customer':
    case 'other_user':
    case 'address':
      return problem(403, 'You are not authorized to perform this action', refusal.detail);
    case 'malformed_check':
      return problem(403, 'The check request is incomplete', refusal.detail);
    case 'own_endpoint':
      return problem(403, 'This path is not decided here', refusal.detail);
    case 'not_found':
      return problem(404, 'Record not found', refusal.detail);
    case 'method_not_allowed':
      return problem(405, 'Method not allowed', refusal.detail);
    case 'too_slow':
      return problem(408, 'Request timeout', refusal.detail);
    case 'body_too_large':
      return problem(413, 'Content too large', refusal.detail);
    case 'target_too_long':
      return problem(414, 'URI too long', refusal.detail);
    case 'expectation_failed':
      return problem(417, 'Expectation failed', refusal.detail);
    case 'fields_too_large':
      return problem(431, 'Request header fields too large', refusal.detail);
    case 'active_tokens':
      return problem(400, 'Bad request', 'user has active API tokens');
    case 'grant': {
      const { status, code, detail, bearer } = refusal;
      const json = { msg: code, code, detail };
      return status === 401 ? challenge(bearer, json) : { status, json };
    }
    case 'login_throttled':
      return {
        ...problem(429, 'Too many requests', 'Too many failed logins; try again later'),
        headers: ['Retry-After', String(refusal.retryAfter)],
      };
    case 'rate_limited':
      return {
        ...problem(429, 'Too many requests', 'The writes of this hour are used up'),
        headers: ['Retry-After', String(refusal.retryAfter)],
      };
    case 'token_rate':
      return {
        ...problem(429, 'Too many requests', 'The request rate of the token is used up'),
        headers: ['Retry-After', String(refusal.retryAfter)],
      };
    case 'upstream_unreachable':
    case 'upstream_broken':
      return problem(502, 'Bad gateway', refusal.detail);
    case 'upstream_too_slow':
      return problem(504, 'Gateway timeout', refusal.detail);
    case 'store_unavailable':
      return unavailable('The credential store cannot answer now');
    case 'outcome_unknown':
      return unavailable('The change is not confirmed; it may have been applied');
    case 'account_source_unavailable':
      return unavailable('The account source cannot answer now');
    case 'key_set_unavailable':
      return unavailable('The keys of the issuer cannot be fetched now');
    case 'audit_unavailable':
      return unavailable('The audit log cannot be written now');
    case 'signing_unavailable':
      return unavailable('The identity cannot be signed now');
    case 'overloaded':
      return unavailable(refusal.detail);
    case 'fault':
      return problem(500, 'Internal error', 'The request was refused because of a fault; see the log');
  }
}

/** The same reply with more fields. */
export function withHeaders(reply: Reply, more: readonly string[]): Reply {
  return more.length === 0 ? reply : { ...reply, headers: [...(reply.headers ?? []), ...more] };
}

/** The same reply with what it says of the page that asked. */
export function withCors(reply: Reply, { fields, varies }: CorsAnswer): Reply {
  const headers = [...(reply.headers ?? []), ...fields];
  if (varies) addVary(headers, 'Origin');
  return { ...reply, headers };
}

function problem(status: number, msg: string, detail: string): Reply {
  return { status, json: { msg, detail } };
}

const KEY_CHALLENGE = 'ApiKey realm="api"';

/** The schemes that a 401 names (RFC 9110 15.5.2). They are one field, because proxies pass on no second one. */
const CHALLENGES = {
  'not taken': KEY_CHALLENGE,
  taken: `Bearer realm="api", ${KEY_CHALLENGE}`,
  invalid: `Bearer realm="api", error="invalid_token", ${KEY_CHALLENGE}`,
} as const;

function challenge(bearer: BearerChallenge | undefined, json: { msg: string }): Reply {
  return { status: 401, headers: ['WWW-Authenticate', CHALLENGES[bearer ?? 'not taken']], json };
}

/** The reply to every made-up key, so it is made once. */
const UNAUTHENTICATED = {
  'not taken': unauthenticated(undefined),
  taken: unauthenticated('taken'),
  invalid: unauthenticated('invalid'),
} as const;

function unauthenticated(bearer: BearerChallenge | undefined): Reply {
  return written(challenge(bearer, { msg: 'Provided credentials are missing or invalid' }));
}

function written(reply: Reply): Reply {
  return { ...reply, text: JSON.stringify(reply.json) };
}

function unavailable(detail: string): Reply {
  return { ...problem(503, 'Service unavailable', detail), headers: ['Retry-After', String(RETRY_SECONDS)] };
}
