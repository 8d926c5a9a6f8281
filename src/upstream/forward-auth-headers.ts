import { malformed, type Refusal } from '../domain/refusal.js';
import { AUTHORIZATION } from '../http/bearer.js';
import { firstField } from '../http/fields.js';
import type { RequestHead } from '../http/head.js';
import {
  ADDRESSES,
  foldName,
  FORWARDED_PREFIX,
  OVERRIDES,
  ProtectedFields,
} from '../http/protected-fields.js';
import {
  authorizationFilter,
  lowerCase,
  type RequestHeaderSettings,
  withheldCookies,
  withoutCookies,
} from './request-headers.js';

/** What the decision port tells a proxy that forwards a request by itself. */
export interface ForwardAuthHeaders {
  /**
   * Refuses a protected field that would stay: another spelling of one, and one that only has the beginning of protected
   * names, where the answer can't take it away. Proxies drop fields by their names.
   *
   * @param namesRemoved whether the answer names fields to remove
   */
  readonly refuse: (head: RequestHead, namesRemoved: boolean) => Refusal | undefined;
  /** Fields for the upstream: identity, `Cookie` without the session, and `Authorization` unless it holds a token. */
  readonly fields: (head: RequestHead, identity: readonly string[]) => string[];
  /** Names of fields that the upstream must not get, where the answer can tell. */
  readonly removed: (head: RequestHead, fields: readonly string[]) => string[];
}

/** What Envoy writes itself before it asks; what a client sent there is replaced already. */
const WRITTEN_BY_ENVOY: ReadonlySet<string> = new Set([
  'x-envoy-external-address',
  'x-envoy-internal',
  'x-forwarded-for',
  'x-forwarded-proto',
  'x-forwarded-host',
  'x-forwarded-port',
  'x-forwarded-client-cert',
]);

/** Envoy shows only some fields, so these are named whether they were seen or not. */
const ALWAYS_REMOVED = [...OVERRIDES, ...ADDRESSES].filter((name) => !WRITTEN_BY_ENVOY.has(name));

/** Names of X-Forwarded fields that proxies send, and that the examples drop where they do not set them. */
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

/** Does for a proxy in front what `request-headers.ts` does for forwarded requests. */
export function createForwardAuthHeaders(settings: RequestHeaderSettings): ForwardAuthHeaders {
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
    refuse: ({ fields }, namesRemoved) => {
      for (let i = 0; i < fields.length; i += 2) {
        const name = fields[i] as string;
        if (protectedFields.isAlias(name))
          return malformed(`the field ${name} can be taken for ${foldName(name)}, which no client may set`);
        if (!namesRemoved && isUnknown(name))
          return malformed(`the field ${name} is one that no client may set`);
      }
      return undefined;
    },
    fields: (head, identity) => {
      const out = [...identity];
      const authorization = firstField(head.fields, AUTHORIZATION);
      if (authorization !== undefined && isForwarded(authorization)) out.push('Authorization', authorization);
      const cookie = cookieFor(head.fields, withheld);
      if (cookie !== '') out.push('Cookie', cookie);
      return out;
    },
    removed: (head, fields) => {
      const absent = unlessSent.filter((name) => firstField(fields, name) === undefined);
      const sent = head.fields
        .filter((name, i) => i % 2 === 0 && protectedFields.hasPrefix(foldName(name)))
        .map(lowerCase)
        .filter((name) => !identityNames.has(name) && !WRITTEN_BY_ENVOY.has(name));
      const isWithheld =
        firstField(head.fields, AUTHORIZATION) !== undefined &&
        firstField(fields, AUTHORIZATION) === undefined;
      return [...absent, ...sent, ...(isWithheld ? [AUTHORIZATION] : []), ...always];
    },
  };
}

/** The client's cookies as one field (RFC 6265 5.4 joins with "; "), without some. */
function cookieFor(fields: readonly string[], withheld: readonly string[]): string {
  let cookies = '';
  for (let i = 0; i < fields.length; i += 2) {
    if ((fields[i] as string).toLowerCase() !== 'cookie') continue;
    const kept = withoutCookies(fields[i + 1] as string, withheld);
    if (kept !== '') cookies = cookies === '' ? kept : `${cookies}; ${kept}`;
  }
  return cookies;
}
