import { asPropertyName, FORWARDED_PREFIX, foldName, NEVER_FORWARDED } from '../http/fields.js';
import type { RequestHead } from '../http/head.js';

/** What the configuration adds to the fields that no client gets through. */
export interface OutboundSettings {
  /** Names of fields that say who is calling: those injected, and others that an upstream may believe. */
  readonly protectedNames: readonly string[];
  /** Folded beginnings of such names. */
  readonly protectedPrefixes: readonly string[];
  /** Names of the key and one-time-password fields. */
  readonly credentialNames: readonly string[];
  /** Exact name of the session cookie. */
  readonly sessionCookie: string;
  readonly forwardCredentials: boolean;
  /** This process writes spans of its own: the upstream is told of them instead of the client's. */
  readonly tracing: boolean;
}

/** Builds the fields of an outbound request: a flat list of names and values, the injected ones last. */
export type Outbound = (head: RequestHead, injected: readonly string[], requestId: string) => string[];

type Treatment = 'keep' | 'drop' | 'cookie' | 'trace';

/** A name of a client's field, and what becomes of the field. */
interface Known {
  readonly name: string;
  readonly treatment: Treatment;
}

const TRACEPARENT = 'traceparent';

/** Clients make names up; only so many are remembered. */
const MAX_REMEMBERED = 2_000;

/** Makes the builder of outbound fields. Fields are rebuilt from what was received, never passed through. */
export function createOutbound(settings: OutboundSettings): Outbound {
  const dropped = new Set([...NEVER_FORWARDED, ...settings.protectedNames.map(foldName)]);
  if (settings.tracing) dropped.add(TRACEPARENT);
  if (!settings.forwardCredentials) for (const name of settings.credentialNames) dropped.add(foldName(name));
  const prefixes = [FORWARDED_PREFIX, ...settings.protectedPrefixes];
  const remembered = new Map<string, Known>();

  const find = (name: string): Known => {
    const known = remembered.get(name);
    if (known !== undefined) return known;
    const treatment = treat(foldName(name), dropped, prefixes, settings.forwardCredentials);
    const made = { name: asPropertyName(name), treatment };
    if (remembered.size < MAX_REMEMBERED) remembered.set(made.name, made);
    return made;
  };

  return (head, injected, requestId) => {
    const listed = head.connection === undefined ? undefined : connectionOptions(head.connection);
    const { fields, client } = head;
    const out: string[] = [];
    for (let i = 0; i < fields.length; i += 2) {
      const { name, treatment } = find(fields[i] as string);
      const value = fields[i + 1] as string;
      if (treatment === 'drop' || listed?.has(name.toLowerCase()) === true) continue;
      if (treatment === 'keep') out.push(name, value);
      else if (treatment === 'trace') {
        // State without a trace means nothing (W3C Trace Context 4.3), and a malformed trace goes no further.
        if (head.trace !== undefined) out.push(name, value);
      } else {
        const cookies = withoutCookie(value, settings.sessionCookie);
        if (cookies !== '') out.push(name, cookies);
      }
    }
    out.push('X-Forwarded-For', client.forwardedFor, 'X-Forwarded-Proto', client.secure ? 'https' : 'http');
    if (client.host !== '') out.push('X-Forwarded-Host', client.host);
    out.push('X-Request-Id', requestId);
    for (let i = 0; i < injected.length; i++) out.push(injected[i] as string);
    return out;
  };
}

function treat(
  folded: string,
  dropped: ReadonlySet<string>,
  prefixes: readonly string[],
  forwardCredentials: boolean,
): Treatment {
  if (dropped.has(folded) || prefixes.some((prefix) => folded.startsWith(prefix))) return 'drop';
  if (folded === TRACEPARENT || folded === 'tracestate') return 'trace';
  return folded === 'cookie' && !forwardCredentials ? 'cookie' : 'keep';
}

/** Lower-case options of a Connection field (RFC 9110 7.6.1); undefined for the usual one without any field name. */
function connectionOptions(connection: string): Set<string> | undefined {
  if (connection === 'keep-alive' || connection === 'close') return undefined;
  return new Set(connection.split(',').map((option) => option.trim().toLowerCase()));
}

/** The Cookie field without the session cookie; the bytes of the others stay. */
export function withoutCookie(field: string, name: string): string {
  if (!field.includes(name)) return field;
  return field
    .split(';')
    .filter((pair) => !isSessionCookie(pair, name))
    .join(';')
    .trim();
}

/** Whether a pair sets this cookie, also by the prefixed names that browsers treat apart. */
export function isSessionCookie(pair: string, name: string): boolean {
  const equals = pair.indexOf('=');
  const found = (equals < 0 ? pair : pair.slice(0, equals)).trim();
  return found === name || found === `__Host-${name}` || found === `__Secure-${name}`;
}
