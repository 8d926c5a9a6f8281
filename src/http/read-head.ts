// src/http: the head and body of a request as values; refusals as replies.
// May import observe and all below.
// `readHead` makes a request of a parsed one, or refuses it.

import { isHost } from '../util/addresses.js';
import { refuseMethod } from '../domain/methods.js';
import { malformed, type Refusal } from '../domain/refusal.js';
import {
  type AcceptedSchemes,
  AUTHORIZATION,
  credentialIn,
  jwtCookiePlace,
  jwtIn,
  type Scheme,
  SUBPROTOCOLS,
  tokensOfSubprotocols,
} from './authorization.js';
import type { ClientReader } from './client-address.js';
import { cookieValues } from './cookies.js';
import type { ParsedRequest } from './exchange.js';
import { parseTraceParent, type RequestHead } from './head.js';
import { foldName } from './protected-fields.js';
import { fieldsOfHttp2 } from './http2-fields.js';
import { parseTarget } from '../domain/path.js';

/** Limits of a request head. In HTTP/1 the listener's parser enforces the total size. */
export interface HeadLimits {
  /** Bytes of all fields together, as HTTP/1 writes them. */
  readonly head_size: number;
  readonly head_fields: number;
  readonly target_size: number;
}

/**
 * Returns the limits of a parser in front of a head reader. They leave it room, so that its refusals concern
 * a request, but not much: a parser retains its last head while its connection is idle.
 */
export function parserLimits({ head_size, head_fields, target_size }: HeadLimits): HeadLimits {
  return { head_size, head_fields: 2 * head_fields, target_size: 2 * target_size };
}

/** Maximum number of options in all Connection fields; each is compared with every field. */
const MAX_CONNECTION_OPTIONS = 100;

/** Browsers send this field only for service worker scripts, whatever its value. */
const SERVICE_WORKER = 'service-worker';

export interface HeadNames extends AcceptedSchemes {
  /** Lower-case name of the token field, `service-key`. */
  readonly key: string;
  /** Lower-case names of further token fields (`interface.key_headers`). */
  readonly keyHeaders: readonly string[];
  /** Lower-case name of the one-time-password field, `service-otp`. */
  readonly otp: string;
  /** Name of the session cookie, in its exact case. */
  readonly sessionCookie: string;
  /** Lower-case names of fields besides `Authorization` that carry JWTs. */
  readonly jwtFields: readonly string[];
  readonly jwtCookies: readonly string[];
}

type Single =
  | 'host'
  | 'content-length'
  | 'content-type'
  | 'origin'
  | 'upgrade'
  | 'transfer-encoding'
  | 'expect'
  | 'sec-fetch-site'
  | 'user-agent';

/**
 * Creates the function that turns a parsed request into a {@link RequestHead}, or refuses it. It reads the
 * flat list, because an object of fields would join or drop repeated ones.
 */
export function createHeadReader(names: HeadNames, limits: HeadLimits, readClient: ClientReader) {
  const { head_size: maxSize, head_fields: maxFields, target_size: maxTarget } = limits;
  const keyHeaders = names.keyHeaders.length === 0 ? undefined : new Set(names.keyHeaders);
  const jwtFields = names.jwtFields.length === 0 ? undefined : new Set(names.jwtFields);
  return function readHead(req: ParsedRequest): RequestHead | Refusal {
    // First the sizes, which a parser has already refused when they are far over their limits.
    const url = req.url ?? '';
    if (url.length > maxTarget) {
      return { refusal: 'target_too_long', detail: `the request target is over ${maxTarget} bytes` };
    }
    const version = req.httpVersion;
    // An HTTP/1 request line may also claim version 2.0, which is refused.
    const http2 = version === '2.0' && req.stream !== undefined;
    if (version !== '1.1' && version !== '1.0' && !http2)
      return malformed('only HTTP/1.0, HTTP/1.1 and HTTP/2 are supported');
    let fields: readonly string[] = req.rawHeaders;
    if (http2) {
      const read = fieldsOfHttp2(fields, maxSize);
      if ('refusal' in read) return read;
      fields = read;
    }
    if (fields.length > maxFields * 2) {
      return { refusal: 'fields_too_large', detail: `more than ${maxFields} header fields` };
    }
    const method = req.method ?? '';
    const unserved = refuseMethod(method, url);
    if (unserved !== undefined) return unserved;
    const target = parseTarget(url);
    if (typeof target === 'string') return malformed(target);

    const single: Partial<Record<Single, string>> = {};
    let key: string | undefined;
    let keyName = names.key;
    let otp: string | undefined;
    let authorization: string | undefined;
    let session: string | undefined;
    let connection: string | undefined;
    let trace: string | undefined;
    let serviceWorker = false;
    let protocols: string | undefined;
    let placedJwt: string | undefined;
    let jwtPlace = AUTHORIZATION;
    for (let i = 0; i < fields.length; i += 2) {
      const name = (fields[i] as string).toLowerCase();
      const value = fields[i + 1] as string;
      switch (name) {
        case names.key:
          if (key !== undefined && (key !== value || name === keyName))
            return twoKeys(keyName, fields[i] as string);
          key = value;
          break;
        case names.otp:
          if (otp !== undefined) return repeated(fields[i] as string);
          otp = value;
          break;
        case AUTHORIZATION:
          if (authorization !== undefined) return repeated(fields[i] as string);
          authorization = value;
          break;
        case 'cookie':
          for (const found of cookieValues(value, names.sessionCookie)) {
            if (session !== undefined)
              return several(`the cookie ${names.sessionCookie} was sent more than once`);
            session = found;
          }
          for (const cookie of names.jwtCookies) {
            for (const found of cookieValues(value, cookie)) {
              if (placedJwt !== undefined) return severalJwts();
              placedJwt = found;
              jwtPlace = jwtCookiePlace(cookie);
            }
          }
          break;
        case 'connection':
          connection = connection === undefined ? value : `${connection}, ${value}`;
          break;
        case 'traceparent':
          // Repeated `traceparent` fields name no trace, but are no reason to refuse the request.
          trace = trace === undefined ? value : '';
          break;
        case 'host':
        case 'content-length':
        case 'content-type':
        case 'origin':
        case 'upgrade':
        case 'transfer-encoding':
        case 'expect':
        case 'sec-fetch-site':
        case 'user-agent':
          if (single[name] !== undefined) return malformed(`the header ${fields[i]} was sent more than once`);
          single[name] = value;
          break;
        case 'sec-fetch-dest':
          if (value.toLowerCase() === 'serviceworker') serviceWorker = true;
          break;
        default:
          if (name.length === SERVICE_WORKER.length && foldName(name) === SERVICE_WORKER)
            serviceWorker = true;
          else if (name === SUBPROTOCOLS)
            protocols = protocols === undefined ? value : `${protocols},${value}`;
          else if (keyHeaders?.has(name) === true) {
            if (key !== undefined && (key !== value || name === keyName))
              return twoKeys(keyName, fields[i] as string);
            if (key === undefined) keyName = name;
            key = value;
          } else if (jwtFields?.has(name) === true) {
            if (placedJwt !== undefined) return severalJwts();
            placedJwt = value;
            jwtPlace = name;
          }
      }
    }

    let scheme: Scheme | undefined;
    let jwt: string | undefined;
    if (protocols !== undefined) {
      for (const token of tokensOfSubprotocols(protocols)) {
        if (key !== undefined && key !== token) return twoKeys(keyName, SUBPROTOCOLS);
        if (key !== undefined) continue;
        key = token;
        keyName = SUBPROTOCOLS;
        scheme = 'bearer';
      }
    }
    const sent = authorization === undefined ? undefined : credentialIn(authorization, names);
    if (sent !== undefined) {
      if (sent.isAmbiguous)
        return several('the user name and the password in Authorization are different tokens');
      if (key !== undefined && key !== sent.token) return twoKeys(keyName, 'Authorization');
      if (key === undefined) ({ scheme, token: key, jwt } = sent);
    }
    // Proxies add these to every request, so what the client itself sends takes precedence.
    const isNeeded = (key ?? jwt ?? session) === undefined;
    const placed = placedJwt !== undefined && isNeeded ? jwtIn(placedJwt) : undefined;
    if (placed === undefined) jwtPlace = AUTHORIZATION;
    else jwt = placed;

    const fault =
      checkHost(single.host, version) ?? checkFraming(single, version) ?? checkConnection(connection);
    if (fault !== undefined) return malformed(fault);
    const expect = single.expect;
    if (expect !== undefined && expect.toLowerCase() !== '100-continue') {
      return { refusal: 'expectation_failed', detail: 'only "Expect: 100-continue" is supported' };
    }
    const client = readClient(req.socket, single.host ?? '', fields);
    if (typeof client === 'string') return malformed(client);
    const length = single['content-length'];
    const mayHaveBody = http2 || single['transfer-encoding'] !== undefined;
    return {
      method,
      target: url,
      path: target.path,
      query: target.query,
      readings: target.readings,
      fields,
      client,
      key,
      scheme,
      jwt,
      jwtPlace,
      otp,
      session,
      contentType: single['content-type'],
      contentLength: length === undefined ? undefined : Number(length),
      hasBody: length === undefined ? mayHaveBody && req.readableEnded !== true : Number(length) > 0,
      connection,
      webSocket: single.upgrade?.toLowerCase() === 'websocket',
      expectsContinue: expect !== undefined && version !== '1.0',
      serviceWorker,
      origin: single.origin,
      fetchSite: single['sec-fetch-site'],
      // An empty field is treated like a missing one.
      userAgent: single['user-agent'] || undefined,
      trace: trace === undefined ? undefined : parseTraceParent(trace),
    };
  };
}

export type HeadReader = ReturnType<typeof createHeadReader>;

function checkHost(host: string | undefined, version: string): string | undefined {
  if (host === undefined) return version === '1.0' ? undefined : 'the Host header is missing';
  return isHost(host) ? undefined : 'the Host header is not a host name with an optional port';
}

/** Checks RFC 9112 6.1 and 6.3: one length or exactly `chunked`, never both, no coding in HTTP/1.0. */
function checkFraming(single: Partial<Record<Single, string>>, version: string): string | undefined {
  const coding = single['transfer-encoding'];
  const length = single['content-length'];
  if (coding !== undefined) {
    if (version !== '1.1') return 'Transfer-Encoding is not allowed in HTTP/1.0';
    if (length !== undefined) return 'both Content-Length and Transfer-Encoding were sent';
    if (coding.toLowerCase() !== 'chunked') return 'the only Transfer-Encoding accepted is "chunked"';
  }
  if (length !== undefined && !/^\d{1,15}$/.test(length)) return 'Content-Length is not a number of bytes';
  return undefined;
}

function checkConnection(connection: string | undefined): string | undefined {
  let comma = connection?.indexOf(',') ?? -1;
  for (let options = 1; comma >= 0; options++) {
    if (options === MAX_CONNECTION_OPTIONS)
      return `Connection has more than ${MAX_CONNECTION_OPTIONS} options`;
    comma = (connection as string).indexOf(',', comma + 1);
  }
  return undefined;
}

/** Refuses a repeated credential field: it would be unclear which one counts. */
function repeated(name: string): Refusal {
  return several(`the header ${name} was sent more than once`);
}

/** @param first in lower case */
function twoKeys(first: string, second: string): Refusal {
  if (second.toLowerCase() === first) return repeated(second);
  return several(`the headers ${first} and ${second} both carry a credential`);
}

function severalJwts(): Refusal {
  return several('more than one header or cookie carries a JWT');
}

function several(detail: string): Refusal {
  return { refusal: 'several_credentials', detail };
}
