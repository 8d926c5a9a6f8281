import type { AuditEvent } from '../domain/audit.js';
import type { CorsHeaders } from '../domain/cors.js';
import { maskTokens } from '../util/text.js';
import { METHODS } from '../domain/methods.js';
import type { Refusal } from '../domain/refusal.js';
import { formatTime } from '../util/time.js';
import { type Content, jsonBody } from './json.js';
import { addVary, joinFields } from './fields.js';

/** A response made by Latchkey: a status, flat header fields, and a JSON or other body, if any. */
export interface Reply<Json = unknown> {
  readonly status: number;
  readonly headers?: readonly string[];
  readonly json?: Json;
  readonly text?: string;
  readonly auditEvents?: readonly AuditEvent[];
  /** Awaited once the audit events are written; its result is sent instead of this reply. */
  readonly after?: () => Promise<Reply<Json>>;
  /** Called when the client has read the response, or is gone: it is no longer in memory. */
  readonly sent?: () => void;
  /** Seconds for which any cache may store it; when absent, it must not be stored. */
  readonly maxAge?: number;
  /** Whether the response ends with its head: no body and no Content-Length. */
  readonly endsWithHead?: boolean;
  readonly content?: Content;
}

const ALLOW: readonly string[] = ['Allow', METHODS.join(', ')];

/** Retry-After in seconds when the store or this process could not serve a request. */
const RETRY_SECONDS = 1;

/** Converts a refusal to its reply; nothing else does, so two refusals of one kind are the same bytes. */
export function refusalReply(refusal: Refusal): Reply {
  switch (refusal.refusal) {
    case 'malformed':
    case 'several_credentials':
    case 'service_worker':
      return problem(400, 'Bad request', refusal.detail);
    case 'unauthenticated':
      return UNAUTHENTICATED;
    case 'token_expired':
      return {
        status: 401,
        json: { msg: `Token ${refusal.tokenId} expired at ${formatTime(refusal.expiredAt)}` },
      };
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
      // RFC 9110 15.5.6: a 405 names the methods that are allowed.
      return { ...problem(405, 'Method not allowed', refusal.detail), headers: ALLOW };
    case 'method_unknown':
      return problem(501, 'Not implemented', refusal.detail);
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
      const { status, code, detail } = refusal;
      return { status, json: { msg: code, code, detail: maskTokens(detail) } };
    }
    case 'login_throttled':
      return {
        ...problem(429, 'Too many requests', 'Too many failed logins; try again later'),
        headers: ['Retry-After', String(refusal.retryAfter)],
      };
    case 'rate_limited':
      return {
        ...problem(429, 'Too many requests', 'The hourly limit of writes is reached'),
        headers: ['Retry-After', String(refusal.retryAfter)],
      };
    case 'token_rate':
      return {
        ...problem(429, 'Too many requests', 'The token has reached its request rate'),
        headers: ['Retry-After', String(refusal.retryAfter)],
      };
    case 'upstream_unreachable':
    case 'upstream_broken':
      return problem(502, 'Bad gateway', refusal.detail);
    case 'upstream_too_slow':
      return problem(504, 'Gateway timeout', refusal.detail);
    case 'store_unavailable':
      return unavailable('The credential store is unavailable');
    case 'outcome_unknown':
      return unavailable('The change is not confirmed; it may have been applied');
    case 'account_source_unavailable':
      return unavailable('The account source is unavailable');
    case 'key_set_unavailable':
      return unavailable('The keys of the issuer cannot be fetched');
    case 'audit_unavailable':
      return unavailable('The audit log cannot be written');
    case 'signing_unavailable':
      return unavailable('The identity cannot be signed');
    case 'overloaded':
      return unavailable(refusal.detail);
    case 'fault':
      return problem(
        500,
        'Internal error',
        'The request was refused because of an internal error; see the log',
      );
  }
}

export function withHeaders(reply: Reply, more: readonly string[]): Reply {
  return more.length === 0 ? reply : { ...reply, headers: joinFields(reply.headers ?? [], more) };
}

export function withCors(reply: Reply, { fields, varies }: CorsHeaders): Reply {
  // Open to every origin already.
  if (reply.headers?.includes('Access-Control-Allow-Origin') === true) return reply;
  const headers = [...(reply.headers ?? []), ...fields];
  if (varies) addVary(headers, 'Origin');
  return { ...reply, headers };
}

/** @param detail may repeat what the client sent; an access token in it is masked */
function problem(status: number, msg: string, detail: string): Reply {
  return { status, json: { msg, detail: maskTokens(detail) } };
}

const MISSING_OR_INVALID = { msg: 'Provided credentials are missing or invalid' };

/** The reply to invalid credentials, serialized once because made-up tokens are common. */
const UNAUTHENTICATED: Reply = {
  status: 401,
  json: MISSING_OR_INVALID,
  text: jsonBody(MISSING_OR_INVALID),
};

function unavailable(detail: string): Reply {
  return { ...problem(503, 'Service unavailable', detail), headers: ['Retry-After', String(RETRY_SECONDS)] };
}
