import type { CorsAnswer } from '../domain/cors.js';
import { addVary, firstField } from '../http/fields.js';
import { foldName } from '../http/protected-fields.js';
import { InvalidUpstreamResponse } from './faults.js';

/** Fields of an answer that concern one connection only (RFC 9110 7.6.1). Node frames the answer itself. */
const HOP_BY_HOP: ReadonlySet<string> = new Set([
  'connection',
  'http2-settings',
  'keep-alive',
  'proxy-connection',
  'proxy-authenticate',
  'proxy-authorization',
  'te',
  'trailer',
  'transfer-encoding',
  'upgrade',
]);

/** Fields that mean something only in a head (RFC 9110 6.5.1): framing, routing, credentials, how to handle the content. */
const NOT_IN_TRAILERS: ReadonlySet<string> = new Set([
  'age',
  'cache-control',
  'clear-site-data',
  'content-encoding',
  'content-length',
  'content-range',
  'content-type',
  'date',
  'expires',
  'host',
  'location',
  'retry-after',
  'service-worker-allowed',
  'set-cookie',
  'vary',
  'warning',
  'www-authenticate',
]);

/** What becomes of a field of an answer, by its name. */
type Treatment =
  | 'keep'
  | 'drop'
  | 'connection'
  | 'cors'
  | 'length'
  | 'coding'
  | 'set-cookie'
  | 'clear-site-data'
  | 'type'
  | 'worker-scope';

/** What there is to know of a name as it was received. */
interface FieldName {
  readonly lower: string;
  readonly treatment: Treatment;
}

/** Upstreams make names up; only so many are kept. */
const MAX_KNOWN_NAMES = 2_000;
const knownNames = new Map<string, FieldName>();

function find(name: string): FieldName {
  const found = knownNames.get(name);
  if (found !== undefined) return found;
  const lower = name.toLowerCase();
  const made = { lower, treatment: treat(lower) };
  if (knownNames.size < MAX_KNOWN_NAMES) knownNames.set(name, made);
  return made;
}

function treat(name: string): Treatment {
  if (name === 'connection' || name === 'set-cookie' || name === 'clear-site-data') return name;
  if (isCorsField(name)) return 'cors';
  if (foldName(name) === 'service-worker-allowed') return 'worker-scope';
  if (name === 'content-length') return 'length';
  if (name === 'content-type') return 'type';
  if (name === 'transfer-encoding') return 'coding';
  return HOP_BY_HOP.has(name) ? 'drop' : 'keep';
}

/**
 * Builds the fields of the answer to the client from those of the upstream.
 *
 * @param status those that end with their head have no length (RFC 9110 8.6; of a 304 it would be another answer's)
 * @param raw names and values as received
 * @param added fields of Latchkey's own; the upstream's of the same names are dropped
 * @param ownCookies names of Latchkey's cookies, which an upstream never sets, clears or shadows
 * @param allowsServiceWorker whether the answer may be the script of a service worker, and widen its scope
 * @param cors what replaces the upstream's own CORS fields; null leaves them
 * @throws InvalidUpstreamResponse for framing that two readers could take differently
 */
export function responseHeaders(
  status: number,
  raw: readonly string[],
  added: readonly string[],
  ownCookies: readonly string[],
  allowsServiceWorker = false,
  cors: CorsAnswer | null = null,
): string[] {
  const fields: string[] = [];
  let listed: Set<string> | undefined;
  let framings = 0;
  let isScript = false;
  for (let i = 0; i < raw.length; i += 2) {
    const name = raw[i] as string;
    const { lower, treatment } = find(name);
    if (treatment === 'drop') continue;
    const value = raw[i + 1] as string;
    switch (treatment) {
      case 'connection':
        listed = optionsOf(value, listed);
        continue;
      case 'coding':
        framings += 1;
        if (value.toLowerCase() !== 'chunked')
          throw new InvalidUpstreamResponse('an unknown transfer coding');
        continue;
      case 'length':
        framings += 1;
        if (status < 200 || isBodiless(status)) continue;
        break;
      case 'set-cookie':
        if (mayBeOwnCookie(value, ownCookies)) continue;
        break;
      case 'clear-site-data': {
        const rest = withoutCookieClearing(value);
        if (rest !== undefined && firstField(added, lower) === undefined) fields.push(name, rest);
        continue;
      }
      case 'type':
        isScript ||= value.toLowerCase().includes('script');
        break;
      case 'worker-scope':
        if (!allowsServiceWorker) continue;
        break;
      case 'cors':
        if (cors !== null) continue;
        break;
      case 'keep':
        break;
    }
    if (firstField(added, lower) === undefined) fields.push(name, value);
  }
  if (framings > 1) throw new InvalidUpstreamResponse('more than one length');
  const kept = listed === undefined ? fields : withoutListed(fields, listed);
  // No cache may take it for the answer to a request for a service worker's script, which is refused (RFC 9110 12.5.5).
  if (isScript && !allowsServiceWorker) kept.push('Vary', 'Service-Worker');
  for (let i = 0; i < added.length; i++) kept.push(added[i] as string);
  if (cors === null) return kept;
  for (const text of cors.fields) kept.push(text);
  if (cors.varies) addVary(kept, 'Origin');
  return kept;
}

/** Lower-case options of a Connection field (RFC 9110 7.6.1) with those found before; the usual ones name no field. */
function optionsOf(connection: string, before: Set<string> | undefined): Set<string> | undefined {
  if (connection === 'keep-alive' || connection === 'close') return before;
  const options = before ?? new Set<string>();
  for (const option of connection.split(',')) options.add(option.trim().toLowerCase());
  return options;
}

/** The fields that Connection does not name. Framing is never taken away by it. */
function withoutListed(fields: readonly string[], listed: ReadonlySet<string>): string[] {
  const kept: string[] = [];
  for (let i = 0; i < fields.length; i += 2) {
    const name = fields[i] as string;
    const lower = name.toLowerCase();
    if (lower === 'content-length' || !listed.has(lower)) kept.push(name, fields[i + 1] as string);
  }
  return kept;
}

/** Whether a field says who may read an answer, or what a page may send (Fetch, 3.2.3). @param name in lower case */
function isCorsField(name: string): boolean {
  return name.startsWith('access-control-');
}

/**
 * Builds the trailers of the answer to the client: what may stand there, and nothing of Latchkey's own names.
 *
 * @param hasCors whether Latchkey says who may read the answer
 */
export function responseTrailers(
  raw: readonly string[],
  added: readonly string[],
  hasCors = false,
): [string, string][] {
  const trailers: [string, string][] = [];
  for (let i = 0; i + 1 < raw.length; i += 2) {
    const name = (raw[i] as string).toLowerCase();
    if (hasCors && isCorsField(name)) continue;
    if (HOP_BY_HOP.has(name) || NOT_IN_TRAILERS.has(name) || firstField(added, name) !== undefined) continue;
    trailers.push([raw[i] as string, raw[i + 1] as string]);
  }
  return trailers;
}

/** Whether an answer of this status ends with its head, whatever the head says (RFC 9112 6.3). */
function isBodiless(status: number): boolean {
  return status === 204 || status === 304;
}

/** Prefixes that browsers know, in any case (RFC 6265bis 5.4, 4.1.3). */
const PREFIX = /^__(?:host-http|host|http|secure)-/;

/**
 * Whether some browser takes a Set-Cookie value for one that sets a cookie of Latchkey's own.
 *
 * A cookie without a name counts: browsers send its value alone, and that may read `service.session=...`. Names are compared
 * without case, space and control characters, which browsers differ in.
 */
function mayBeOwnCookie(setCookie: string, ownCookies: readonly string[]): boolean {
  const equals = setCookie.indexOf('=');
  const semicolon = setCookie.indexOf(';');
  if (equals < 0 || (semicolon >= 0 && semicolon < equals)) return true;
  const name = foldCookieName(setCookie.slice(0, equals));
  if (name === '') return true;
  const bare = name.replace(PREFIX, '');
  return ownCookies.some((own) => own.toLowerCase().replace(PREFIX, '') === bare);
}

function foldCookieName(name: string): string {
  let folded = '';
  for (const character of name) if (character > ' ' && character !== '\x7f') folded += character;
  return folded.toLowerCase();
}

/** A Clear-Site-Data value without the directives that end the session; undefined when nothing is left. */
function withoutCookieClearing(clearSiteData: string): string | undefined {
  const kept = clearSiteData.split(',').filter((directive) => !clearsCookies(directive));
  return kept.length === 0 ? undefined : kept.join(',').trim();
}

function clearsCookies(directive: string): boolean {
  return directive.includes('*') || /cookie/i.test(directive);
}
