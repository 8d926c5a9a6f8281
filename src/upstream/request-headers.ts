import {
  type AcceptedSchemes,
  AUTHORIZATION,
  credentialIn,
  holdsToken,
  jwtsIn,
  SUBPROTOCOLS,
  withoutCarriers,
} from '../http/authorization.js';
import { isNamed, pairsWith } from '../http/cookies.js';
import { asPropertyName, fieldValues, firstField, NameCache } from '../http/fields.js';
import type { RequestHead } from '../http/head.js';
import {
  ADDRESSES,
  foldName,
  FORWARDED_PREFIX,
  OVERRIDES,
  ProtectedFields,
  type ProtectedNames,
} from '../http/protected-fields.js';
import { malformed, type Refusal } from '../domain/refusal.js';
import { connectionOptions } from './response.js';

export interface RequestHeaderSettings extends ProtectedNames {
  /** Exact names of the cookies with a session or a JWT; forwarded only with `forwardCredentials`. */
  readonly credentialCookies: readonly string[];
  /** Exact names of Latchkey's other cookies, which are never forwarded. */
  readonly ownCookies: readonly string[];
  readonly forwardCredentials: boolean;
  /** Schemes in which `Authorization` carries a credential; in any other, no token is forwarded. */
  readonly schemes: AcceptedSchemes;
  /** Returns whether a JWT is a credential: its claimed issuer is configured. */
  readonly isOwnJwt?: (jwt: string) => boolean;
  /** Whether this process writes spans: the upstream then receives their ids, not the client's. */
  readonly tracing: boolean;
}

/** Builds the request headers for the upstream: a flat list, the injected ones last. */
export type RequestHeaders = (
  head: RequestHead,
  injected: readonly string[],
  requestId: string,
  strippedPrefix: string,
) => string[];

type Treatment = 'keep' | 'drop' | 'cookie' | 'authorization' | 'subprotocols' | 'trace';

interface Known {
  readonly name: string;
  readonly treatment: Treatment;
}

const TRACEPARENT = 'traceparent';

/** The fields are rebuilt from the received ones, not passed through. */
export function createRequestHeaders(settings: RequestHeaderSettings): RequestHeaders {
  const { forwardCredentials, tracing } = settings;
  const isForwarded = authorizationFilter(settings);
  const fields = new ProtectedFields(settings);
  const withheld = withheldCookies(settings);
  const forwarded = new Set(forwardCredentials ? settings.credentialNames.map(lowerCase) : []);
  const treat = (name: string): Treatment => {
    if (forwarded.has(lowerCase(name))) return 'keep';
    const folded = foldName(name);
    if (fields.has(folded)) return 'drop';
    if (folded === TRACEPARENT) return tracing ? 'drop' : 'trace';
    if (folded === 'tracestate') return 'trace';
    if (folded === AUTHORIZATION) return 'authorization';
    if (folded === SUBPROTOCOLS) return 'subprotocols';
    return folded === 'cookie' && withheld.length > 0 ? 'cookie' : 'keep';
  };
  const knownNames = new NameCache<Known>();

  const find = (name: string): Known => {
    const known = knownNames.get(name);
    if (known !== undefined) return known;
    const made = { name: asPropertyName(name), treatment: treat(name) };
    knownNames.add(made.name, made);
    return made;
  };

  return (head, injected, requestId, strippedPrefix) => {
    const listed = head.connection === undefined ? undefined : connectionOptions(head.connection);
    const { fields, client } = head;
    const out: string[] = [];
    for (let i = 0; i < fields.length; i += 2) {
      const { name, treatment } = find(fields[i] as string);
      const value = fields[i + 1] as string;
      if (treatment === 'drop' || listed?.has(name.toLowerCase()) === true) continue;
      if (treatment === 'keep') out.push(name, value);
      else if (treatment === 'trace') {
        // `tracestate` means nothing without a trace (W3C Trace Context 4.3), and a malformed trace is
        // dropped.
        if (head.trace !== undefined) out.push(name, value);
      } else if (treatment === 'authorization') {
        if (isForwarded(value)) out.push(name, value);
      } else if (treatment === 'subprotocols') {
        const kept = withoutCarriers(value);
        if (kept !== '') out.push(name, kept);
      } else {
        const cookies = withoutCookies(value, withheld);
        if (cookies !== '') out.push(name, cookies);
      }
    }
    out.push('X-Forwarded-For', client.forwardedFor, 'X-Forwarded-Proto', client.secure ? 'https' : 'http');
    if (client.host !== '') out.push('X-Forwarded-Host', client.host);
    if (client.port !== '') out.push('X-Forwarded-Port', client.port);
    if (client.prefix !== '' || strippedPrefix !== '')
      out.push('X-Forwarded-Prefix', client.prefix + strippedPrefix);
    out.push('X-Request-Id', requestId);
    for (let i = 0; i < injected.length; i++) out.push(injected[i] as string);
    return out;
  };
}

/** Maximum parts of an `Authorization` value that may be JWTs: 16 KiB have room for thousands. */
const MAX_JWTS = 32;

/** Whether an `Authorization` value may be forwarded: any without a credential. */
function authorizationFilter({ forwardCredentials, schemes, isOwnJwt }: RequestHeaderSettings) {
  const holdsJwt = (value: string) => {
    if (isOwnJwt === undefined) return false;
    const jwts = jwtsIn(value);
    return jwts.length > MAX_JWTS || jwts.some(isOwnJwt);
  };
  return (value: string): boolean => {
    if (forwardCredentials) return !holdsToken(value) || credentialIn(value, schemes) !== undefined;
    return !holdsToken(value) && !holdsJwt(value);
  };
}

function lowerCase(name: string): string {
  return name.toLowerCase();
}

/** Returns the exact names of the cookies that are never forwarded, at any entrance. */
function withheldCookies(settings: RequestHeaderSettings): readonly string[] {
  const { forwardCredentials, credentialCookies, ownCookies } = settings;
  return forwardCredentials ? ownCookies : [...credentialCookies, ...ownCookies];
}

function withoutCookies(field: string, names: readonly string[]): string {
  let left = field;
  for (let i = 0; i < names.length; i++) left = withoutCookie(left, names[i] as string);
  return left;
}

/** Returns a Cookie field without one cookie; the bytes of the others are unchanged. */
export function withoutCookie(field: string, name: string): string {
  if (!field.includes(name)) return field;
  const kept: string[] = [];
  let from = 0;
  for (const [start, end] of pairsWith(field, name)) {
    if (!isCookie(field.slice(start, end), name)) continue;
    if (start > from) kept.push(field.slice(from, start - 1));
    from = end + 1;
  }
  if (from <= field.length) kept.push(field.slice(from));
  return kept.join(';').trim();
}

function isCookie(pair: string, name: string): boolean {
  if (!pair.includes(name)) return false;
  const equals = pair.indexOf('=');
  const found = (equals < 0 ? pair : pair.slice(0, equals)).trim();
  if (found === name) return true;
  const prefix = found.startsWith('__Host-') ? 7 : found.startsWith('__Secure-') ? 9 : 0;
  return isNamed(found.slice(prefix), name);
}

/** Fields that Envoy sets before it asks; it has replaced any value of the client. */
const WRITTEN_BY_ENVOY: ReadonlySet<string> = new Set([
  'x-envoy-external-address',
  'x-envoy-internal',
  'x-forwarded-for',
  'x-forwarded-proto',
  'x-forwarded-host',
  'x-forwarded-port',
  'x-forwarded-client-cert',
]);

/** Fields to remove even if they were not seen: Envoy includes only some fields in its check. */
const ALWAYS_REMOVED = [...OVERRIDES, ...ADDRESSES].filter((name) => !WRITTEN_BY_ENVOY.has(name));

/** X-Forwarded fields that proxies send. The example configurations drop those they do not set. */
export const FORWARDED_NAMES: readonly string[] = [
  'access-token',
  'authorization',
  'by',
  'client-cert',
  'client-ip',
  'email',
  'for',
  'groups',
  'host',
  'method',
  'path',
  'port',
  'preferred-username',
  'prefix',
  'proto',
  'scheme',
  'server',
  'ssl',
  'tls-client-cert',
  'tls-client-cert-info',
  'uri',
  'url',
  'user',
].map((name) => FORWARDED_PREFIX + name);

/** Creates the header rules for forward auth, the counterpart of `request-headers.ts`. */
export function createForwardAuthHeaders(settings: RequestHeaderSettings) {
  const { protectedNames, credentialNames, forwardCredentials } = settings;
  const withheld = withheldCookies(settings);
  const protectedFields = new ProtectedFields(settings);
  const isForwarded = authorizationFilter(settings);
  const identityNames = new Set(protectedNames.map(lowerCase));
  const dropped = new Set([...identityNames, ...FORWARDED_NAMES]);
  const unlessSent = [...identityNames, 'cookie'];
  const always = [...(forwardCredentials ? [] : credentialNames.map(lowerCase)), ...ALWAYS_REMOVED];
  const isUnknown = (name: string): boolean => {
    const lower = name.toLowerCase();
    return protectedFields.hasPrefix(lower) && !dropped.has(lower);
  };
  return {
    /**
     * Refuses a request with a protected field that the proxy would let through: another spelling of a
     * protected name, because proxies drop by exact name, and an unlisted name with a protected prefix, unless
     * the response lists it.
     * @param namesRemoved whether the response lists fields to remove
     */
    refuse: ({ fields }: RequestHead, namesRemoved: boolean): Refusal | undefined => {
      for (let i = 0; i < fields.length; i += 2) {
        const name = fields[i] as string;
        if (protectedFields.isAlias(name))
          return malformed(
            `the header ${name} can be mistaken for ${foldName(name)}, which clients may not set`,
          );
        if (!namesRemoved && isUnknown(name)) return malformed(`clients may not set the header ${name}`);
      }
      return undefined;
    },
    /**
     * Returns fields for the upstream, flat: the identity, `Cookie` without the session, `Authorization` unless
     * it has a token, and `Sec-WebSocket-Protocol` without one.
     */
    fields: (head: RequestHead, identity: readonly string[]): string[] => {
      const out = [...identity];
      const authorization = firstField(head.fields, AUTHORIZATION);
      if (authorization !== undefined && isForwarded(authorization)) out.push('Authorization', authorization);
      const cookie = cookieFor(head.fields, withheld);
      if (cookie !== '') out.push('Cookie', cookie);
      const protocols = withoutCarriers(fieldValues(head.fields, SUBPROTOCOLS).join(', '));
      if (protocols !== '') out.push('Sec-WebSocket-Protocol', protocols);
      return out;
    },
    removed: (head: RequestHead, fields: readonly string[]): string[] => {
      const absent = unlessSent.filter((name) => firstField(fields, name) === undefined);
      const sent = head.fields
        .filter((name, i) => i % 2 === 0 && protectedFields.hasPrefix(foldName(name)))
        .map(lowerCase)
        .filter((name) => !identityNames.has(name) && !WRITTEN_BY_ENVOY.has(name));
      const withheldNames = [AUTHORIZATION, SUBPROTOCOLS].filter(
        (name) => firstField(head.fields, name) !== undefined && firstField(fields, name) === undefined,
      );
      return [...absent, ...sent, ...withheldNames, ...always];
    },
  };
}

export type ForwardAuthHeaders = ReturnType<typeof createForwardAuthHeaders>;

/** Returns the client's cookies as one field (RFC 6265 5.4), without the withheld ones. */
function cookieFor(fields: readonly string[], withheld: readonly string[]): string {
  let cookies = '';
  for (let i = 0; i < fields.length; i += 2) {
    if ((fields[i] as string).toLowerCase() !== 'cookie') continue;
    const kept = withoutCookies(fields[i + 1] as string, withheld);
    if (kept !== '') cookies = cookies === '' ? kept : `${cookies}; ${kept}`;
  }
  return cookies;
}
