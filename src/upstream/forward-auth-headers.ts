import { malformed, type Refusal } from '../domain/refusal.js';
import { AUTHORIZATION, SUBPROTOCOLS, withoutCarriers } from '../http/authorization.js';
import { fieldValues, firstField } from '../http/fields.js';
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
