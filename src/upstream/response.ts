import type { CorsHeaders } from '../domain/cors.js';
import { forbidsContent } from '../domain/methods.js';
import { maySetCookie } from '../http/cookies.js';
import { addVary, fieldValues, firstField, NameCache } from '../http/fields.js';
import { foldName, HOP_BY_HOP as HOP_BY_HOP_NAMES } from '../http/protected-fields.js';
import { InvalidUpstreamResponse } from './faults.js';
import type { IncomingRequest, OutgoingResponse } from '../http/exchange.js';
import { limitRest, lingeringEnd } from '../http/write-reply.js';
import { grpcTrailers } from '../http/http2-fields.js';
import { refusalReply } from '../http/replies.js';
import type { Refusal } from '../domain/refusal.js';

/** Hop-by-hop fields of a response, where `Proxy` means nothing. The listener adds its own framing. */
const HOP_BY_HOP: ReadonlySet<string> = new Set(
  ['transfer-encoding', ...HOP_BY_HOP_NAMES].filter((name) => name !== 'proxy'),
);

/**
 * Fields that are significant only in a head (RFC 9110 6.5.1). The writers of HTTP/1.1 and HTTP/2 refuse
 * trailers with a framing or hop-by-hop field.
 */
const NOT_IN_TRAILERS: ReadonlySet<string> = new Set([
  ...HOP_BY_HOP_NAMES,
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
  'set-cookie2',
  'transfer-encoding',
  'vary',
  'warning',
  'www-authenticate',
]);

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

interface FieldName {
  readonly lower: string;
  readonly treatment: Treatment;
}

const knownNames = new NameCache<FieldName>();

function find(name: string): FieldName {
  const found = knownNames.get(name);
  if (found !== undefined) return found;
  const lower = name.toLowerCase();
  const made = { lower, treatment: treat(lower) };
  knownNames.add(name, made);
  return made;
}

function treat(name: string): Treatment {
  if (name === 'connection' || name === 'set-cookie' || name === 'clear-site-data') return name;
  // Java's clients still accept this obsolete field (RFC 2965).
  if (name === 'set-cookie2') return 'set-cookie';
  if (isCorsField(name)) return 'cors';
  if (foldName(name) === 'service-worker-allowed') return 'worker-scope';
  if (name === 'content-length') return 'length';
  if (name === 'content-type') return 'type';
  if (name === 'transfer-encoding') return 'coding';
  return HOP_BY_HOP.has(name) ? 'drop' : 'keep';
}

/**
 * Builds the response headers for the client from those of the upstream. Content-Length is dropped for 1xx,
 * 204 and 304 (RFC 9110 8.6), and 0 for 205.
 * @param added fields of Latchkey's own, which replace the upstream's of the same names
 * @param ownCookies names of Latchkey's cookies, which an upstream cannot set, clear or shadow
 * @param cors fields that replace the upstream's CORS fields; null keeps the upstream's
 * @throws InvalidUpstreamResponse for framing that two readers could interpret differently
 */
export function responseHeaders(
  status: number,
  raw: readonly string[],
  added: readonly string[],
  ownCookies: readonly string[],
  allowsServiceWorker = false,
  cors: CorsHeaders | null = null,
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
        listed = connectionOptions(value, listed);
        continue;
      case 'coding':
        framings += 1;
        if (value.toLowerCase() !== 'chunked')
          throw new InvalidUpstreamResponse('an unknown transfer coding');
        continue;
      case 'length':
        framings += 1;
        if (status < 200 || forbidsContent(status)) continue;
        // The number as it was read, because another reader may take leading zeros for octal.
        fields.push(name, value.startsWith('0') ? String(Number(value)) : value);
        continue;
      case 'set-cookie':
        if (maySetCookie(value, ownCookies)) continue;
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
  // A cache must not reuse it for a service worker script, whose request is refused (RFC 9110 12.5.5).
  if (isScript && !allowsServiceWorker) kept.push('Vary', 'Service-Worker');
  if (status === 205) kept.push('Content-Length', '0');
  for (let i = 0; i < added.length; i++) kept.push(added[i] as string);
  if (cors === null) return kept;
  for (const text of cors.fields) kept.push(text);
  if (cors.varies) addVary(kept, 'Origin');
  return kept;
}

/** Adds the lower-case options of a Connection field (RFC 9110 7.6.1); the usual values name no field. */
export function connectionOptions(connection: string, before?: Set<string>): Set<string> | undefined {
  if (connection === 'keep-alive' || connection === 'close') return before;
  const options = before ?? new Set<string>();
  for (const option of connection.split(',')) options.add(option.trim().toLowerCase());
  return options;
}

/** Returns the fields that Connection does not list. Content-Length is kept in any case. */
function withoutListed(fields: readonly string[], listed: ReadonlySet<string>): string[] {
  const kept: string[] = [];
  for (let i = 0; i < fields.length; i += 2) {
    const name = fields[i] as string;
    const lower = name.toLowerCase();
    if (lower === 'content-length' || !listed.has(lower)) kept.push(name, fields[i + 1] as string);
  }
  return kept;
}

/** @param name in lower case */
function isCorsField(name: string): boolean {
  return name.startsWith('access-control-');
}

/**
 * Builds the trailers for the client, without Latchkey's own names and those that Connection lists (RFC 9110
 * 7.6.1).
 * @param head fields of the response as received, flat
 * @param hasCors whether Latchkey sets the CORS fields of the response
 */
export function responseTrailers(
  raw: readonly string[],
  head: readonly string[],
  added: readonly string[],
  hasCors = false,
): [string, string][] {
  const trailers: [string, string][] = [];
  let listed: Set<string> | undefined;
  for (const connection of fieldValues(head, 'connection')) listed = connectionOptions(connection, listed);
  for (let i = 0; i + 1 < raw.length; i += 2) {
    const name = (raw[i] as string).toLowerCase();
    if (hasCors && isCorsField(name)) continue;
    if (NOT_IN_TRAILERS.has(name) || listed?.has(name) === true) continue;
    if (firstField(added, name) !== undefined) continue;
    trailers.push([raw[i] as string, raw[i + 1] as string]);
  }
  return trailers;
}

/** Returns a Clear-Site-Data value without directives that end the session; undefined if none is left. */
function withoutCookieClearing(clearSiteData: string): string | undefined {
  const kept = clearSiteData.split(',').filter((each) => !each.includes('*') && !/cookie/i.test(each));
  return kept.length === 0 ? undefined : kept.join(',').trim();
}

/** Maximum bytes of a body that are sent as one string with the head, which needs no buffer. */
const MAX_JOINED = 8 * 1024;

/** Writes the first or a further part of a response; returns whether the client takes more. */
export function writePart(res: OutgoingResponse, chunk: Buffer, isFirst: boolean): boolean {
  const joins = isFirst && chunk.length <= MAX_JOINED && !res.chunkedEncoding;
  return joins ? res.write(chunk.toString('latin1'), 'latin1') : res.write(chunk);
}

/**
 * @param hasUpload whether the request has a body, which may be incomplete
 * @param idleTimeout milliseconds that the client has to read what is left
 */
export function endResponse(
  req: IncomingRequest,
  res: OutgoingResponse,
  hasUpload: boolean,
  idleTimeout: number,
): void {
  const isUnread = hasUpload && !req.readableEnded;
  if (isUnread && res.shouldKeepAlive === false) {
    // If the connection were closed while the client sends, it would be reset, and the response might be
    // lost with it.
    res.flushHeaders();
    lingeringEnd(req, res);
  } else {
    if (isUnread) limitRest(req);
    res.end();
  }
  if (!res.writableNeedDrain) return;
  const timer = setTimeout(abandon, idleTimeout, res);
  res.once('close', () => clearTimeout(timer));
}

/** Aborts a response so that the client sees that it is incomplete; a gRPC client receives the reason. */
export function breakOff(res: OutgoingResponse, reason: Refusal): void {
  if (res.endGrpc?.(grpcTrailers(refusalReply(reason))) !== true) res.destroy();
}

/** A client that does not read its response in time sees that it is incomplete. */
export function abandon(res: OutgoingResponse): void {
  res.destroy();
}
