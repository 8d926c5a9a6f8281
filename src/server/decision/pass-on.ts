import type { Refusal } from '../../domain/refusal.js';
import { firstField, foldName, JUDGEMENT_OVERRIDES } from '../../http/fields.js';
import type { RequestHead } from '../../http/head.js';
import { type OutboundSettings, withoutCookie } from '../../proxy/outbound.js';

/** Says to a proxy what its upstream is to get. */
export interface PassOn {
  /** Refuses a field that upstreams may read as an identity field and that no answer can take away again. */
  readonly refuseAlias: (head: RequestHead) => Refusal | undefined;
  /** Fields for the upstream: identity, and `Cookie` without the session. */
  readonly fields: (head: RequestHead, identity: readonly string[]) => string[];
  /** Names of fields that the upstream must not get, as Envoy takes them from an answer. */
  readonly removed: (head: RequestHead, fields: readonly string[]) => string;
}

/** Makes what does for a proxy in front what `proxy/outbound` does for requests that are forwarded. */
export function createPassOn(settings: OutboundSettings): PassOn {
  const { protectedNames, protectedPrefixes, credentialNames, sessionCookie, forwardCredentials } = settings;
  const folded = new Set(protectedNames.map(foldName));
  const always = [...(forwardCredentials ? [] : credentialNames.map(lowerCase)), ...JUDGEMENT_OVERRIDES];
  const exact = new Set(protectedNames.map(lowerCase));
  const unlessSent = [...exact, 'cookie'];
  const hasPrefix = (name: string): boolean => {
    const foldedName = foldName(name);
    return protectedPrefixes.some((prefix) => foldedName.startsWith(prefix));
  };
  return {
    refuseAlias: ({ fields }) => {
      for (let i = 0; i < fields.length; i += 2) {
        const name = fields[i] as string;
        if (!name.includes('_') && !name.includes('.')) continue;
        if ((folded.has(foldName(name)) && !exact.has(lowerCase(name))) || hasPrefix(name))
          return {
            refusal: 'malformed',
            detail: `the field ${name} can be taken for one that only Latchkey sets`,
          };
      }
      return undefined;
    },
    fields: (head, identity) => {
      const cookie = cookieFor(head.fields, forwardCredentials ? undefined : sessionCookie);
      return cookie === '' ? [...identity] : [...identity, 'Cookie', cookie];
    },
    removed: (head, fields) => {
      const absent = unlessSent.filter((name) => firstField(fields, name) === undefined);
      const sent = head.fields.filter((name, i) => i % 2 === 0 && hasPrefix(name)).map(lowerCase);
      return [...absent, ...sent.filter((name) => !exact.has(name)), ...always].join(',');
    },
  };
}

function lowerCase(name: string): string {
  return name.toLowerCase();
}

/** The client's cookies as one field (RFC 6265 5.4 joins with "; "), without the session cookie. */
function cookieFor(fields: readonly string[], sessionCookie: string | undefined): string {
  let cookies = '';
  for (let i = 0; i < fields.length; i += 2) {
    if ((fields[i] as string).toLowerCase() !== 'cookie') continue;
    const value = fields[i + 1] as string;
    const kept = sessionCookie === undefined ? value : withoutCookie(value, sessionCookie);
    if (kept !== '') cookies = cookies === '' ? kept : `${cookies}; ${kept}`;
  }
  return cookies;
}
