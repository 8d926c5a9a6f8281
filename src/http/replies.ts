import { setImmediate } from 'node:timers/promises';
import type { AuditEvent } from '../domain/audit.js';
import type { CorsHeaders } from '../domain/cors.js';
import { maskTokens } from '../util/text.js';
import { METHODS } from '../domain/methods.js';
import type { Refusal } from '../domain/refusal.js';
import { formatTime } from '../util/time.js';
import { addVary, isByScript, joinFields } from './fields.js';
import type { AcceptedSchemes } from './authorization.js';
import type { RequestHead } from './head.js';

export interface Content {
  readonly type: string;
  readonly bytes: Buffer;
  /** Whether caches may keep it forever, because changed content has another name. */
  readonly immutable: boolean;
}

/** Milliseconds of serialization between two yields to the event loop. */
const SLICE_MS = 4;
const PIECE = 64 * 1024;

/** A body ends with a newline, so that a terminal shows its next prompt on a line of its own. */
export function jsonBody(value: unknown): string {
  return `${JSON.stringify(value)}\n`;
}

/**
 * Serializes a list as a JSON array. Yields between slices: a customer may own thousands of tokens of 7 KiB.
 */
export async function jsonList<T>(items: Iterable<T>, shown: (item: T) => object): Promise<Content> {
  const pieces: Buffer[] = [];
  let text = '[';
  let separator = '';
  let until = performance.now() + SLICE_MS;
  for (const item of items) {
    text += separator + JSON.stringify(shown(item));
    separator = ',';
    if (text.length >= PIECE) {
      pieces.push(Buffer.from(text));
      text = '';
    }
    if (performance.now() < until) continue;
    await setImmediate();
    until = performance.now() + SLICE_MS;
  }
  pieces.push(Buffer.from(`${text}]\n`));
  return { type: 'application/json', bytes: Buffer.concat(pieces), immutable: false };
}

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

const FAULT = 'The request was refused because of an internal error; see the log';

/** Retry-After in seconds when the store or this process could not serve a request. */
const RETRY_SECONDS = 1;

type Problem = readonly [status: number, msg: string];
const BAD_REQUEST: Problem = [400, 'Bad request'];
const FORBIDDEN: Problem = [403, 'You are not authorized to perform this action'];

/** Of the refusals whose body has their own detail. */
const PROBLEMS = {
  malformed: BAD_REQUEST,
  several_credentials: BAD_REQUEST,
  service_worker: BAD_REQUEST,
  role: FORBIDDEN,
  scope: FORBIDDEN,
  service: FORBIDDEN,
  service_limited: FORBIDDEN,
  wrong_credential_kind: FORBIDDEN,
  cross_origin: FORBIDDEN,
  other_customer: FORBIDDEN,
  other_user: FORBIDDEN,
  address: FORBIDDEN,
  malformed_check: [403, 'The check request is incomplete'],
  own_endpoint: [403, 'This path is not decided here'],
  not_found: [404, 'Record not found'],
  method_not_allowed: [405, 'Method not allowed'],
  method_unknown: [501, 'Not implemented'],
  too_slow: [408, 'Request timeout'],
  body_too_large: [413, 'Content too large'],
  target_too_long: [414, 'URI too long'],
  expectation_failed: [417, 'Expectation failed'],
  fields_too_large: [431, 'Request header fields too large'],
  upstream_unreachable: [502, 'Bad gateway'],
  upstream_broken: [502, 'Bad gateway'],
  upstream_too_slow: [504, 'Gateway timeout'],
} satisfies Readonly<Record<string, Problem>>;

/** Converts a refusal to its reply; nothing else does, so two refusals of one kind are the same bytes. */
export function refusalReply(refusal: Refusal): Reply {
  switch (refusal.refusal) {
    case 'unauthenticated':
      return UNAUTHENTICATED;
    case 'token_expired': {
      const msg = `Token ${refusal.tokenId} expired at ${formatTime(refusal.expiredAt)}`;
      return { status: 401, json: { msg } };
    }
    case 'grant': {
      const { status, code, detail } = refusal;
      return { status, json: { msg: code, code, detail: maskTokens(detail) } };
    }
    case 'active_tokens':
      return problem(BAD_REQUEST, 'user has active API tokens');
    case 'login_throttled':
      return tooMany('Too many failed logins; try again later', refusal.retryAfter);
    case 'rate_limited':
      return tooMany('The hourly limit of writes is reached', refusal.retryAfter);
    case 'token_rate':
      return tooMany('The token has reached its request rate', refusal.retryAfter);
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
      return problem([500, 'Internal error'], FAULT);
    case 'method_not_allowed':
      // RFC 9110 15.5.6: a 405 names the methods that are allowed.
      return { ...problem(PROBLEMS.method_not_allowed, refusal.detail), headers: ALLOW };
    default:
      return problem(PROBLEMS[refusal.refusal], refusal.detail);
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
function problem([status, msg]: Problem, detail: string): Reply {
  return { status, json: { msg, detail: maskTokens(detail) } };
}

/** The reply to invalid credentials, serialized once because made-up tokens are common. */
const MISSING = { msg: 'Provided credentials are missing or invalid' };
const UNAUTHENTICATED: Reply = { status: 401, json: MISSING, text: jsonBody(MISSING) };

function unavailable(detail: string): Reply {
  return laterReply([503, 'Service unavailable'], detail, RETRY_SECONDS);
}

function tooMany(detail: string, seconds: number): Reply {
  return laterReply([429, 'Too many requests'], detail, seconds);
}

function laterReply(of: Problem, detail: string, seconds: number): Reply {
  return { ...problem(of, detail), headers: ['Retry-After', String(seconds)] };
}

export interface ChallengeSettings extends AcceptedSchemes {
  /** Without characters that a quoted string would have to escape. */
  readonly realm: string;
  /** The paths whose challenges name protected resource metadata (RFC 9728 5.1), and its URL. */
  readonly resource: { readonly path: string; readonly metadata: string } | null;
}

/**
 * Adds one `WWW-Authenticate` to a 401 (RFC 9110 11.6.1): some proxies drop a second one.
 * @param head null when it was not read
 */
export type Challenge = (reply: Reply, head: RequestHead | null, refusal: Refusal) => Reply;

interface Offer {
  readonly fields: readonly string[];
  readonly reply: Reply;
}

/**
 * Many programs only look at the first scheme: `Basic` (containers/image, Mercurial), or on the paths of the
 * resource `Bearer` with its metadata (the MCP SDK).
 */
export function createChallenge({ basic, bearer, jwt, realm, resource }: ChallengeSettings): Challenge {
  const basics = basic ? [`Basic realm="${realm}"`] : [];
  const bearers = bearer || jwt ? [`Bearer realm="${realm}"`] : [];
  const metadata = resource === null ? '' : `, resource_metadata="${resource.metadata}"`;
  const offersWith = (error: string) => {
    const elsewhere = bearers.map((each) => each + error);
    const ofResource = bearers.map((each) => each + metadata + error);
    return {
      elsewhere: { browser: offerOf(elsewhere), other: offerOf([...basics, ...elsewhere]) },
      ofResource: { browser: offerOf(ofResource), other: offerOf([...ofResource, ...basics]) },
    };
  };
  const missing = offersWith('');
  const invalid = offersWith(', error="invalid_token"');

  function offerFor(head: RequestHead | null, { refusal }: Refusal): Offer {
    if (head === null) return missing.elsewhere.other;
    // A failed login says nothing about the token of its request.
    const offers = head.scheme === 'bearer' && refusal !== 'grant' ? invalid : missing;
    const isOfResource = resource !== null && isWithin(head.path, resource.path);
    const { browser, other } = isOfResource ? offers.ofResource : offers.elsewhere;
    return basic && isOfBrowser(head.fields) ? browser : other;
  }

  return (reply, head, refusal) => {
    const offer = offerFor(head, refusal);
    return reply === UNAUTHENTICATED ? offer.reply : withHeaders(reply, offer.fields);
  };
}

function offerOf(schemes: readonly string[]): Offer {
  const fields = schemes.length === 0 ? [] : ['WWW-Authenticate', schemes.join(', ')];
  return { fields, reply: withHeaders(UNAUTHENTICATED, fields) };
}

function isOfBrowser(fields: readonly string[]): boolean {
  for (let i = 0; i < fields.length; i += 2) {
    const name = fields[i] as string;
    if (name[3] !== '-' || name.length <= FETCH_METADATA.length) continue;
    if (name.toLowerCase().startsWith(FETCH_METADATA)) return true;
  }
  // Over plain HTTP, browsers send no fetch metadata.
  return isByScript(fields);
}

const FETCH_METADATA = 'sec-fetch-';

function isWithin(path: string, resource: string): boolean {
  if (!path.startsWith(resource)) return false;
  return path.length === resource.length || resource.endsWith('/') || path[resource.length] === '/';
}
