import t from 'tap';
import { unverifiedClaims } from '../../src/accounts/jwt/subjects.js';
import { refuseCrossOrigin, serviceOf } from '../../src/gate/request-rules.js';
import {
  readCreateToken,
  readLogin,
  readRevokeTokens,
  readSudo,
} from '../../src/endpoints/schema/requests.js';
import { parseBody } from '../../src/http/body.js';
import { createClientReader } from '../../src/http/client-address.js';
import type { RequestHead } from '../../src/http/head.js';
import { fieldsOfHttp2 } from '../../src/http/http2-fields.js';
import { createHeadReader } from '../../src/http/read-head.js';
import { parseTarget } from '../../src/domain/path.js';
import { DEFAULT_LIMITS } from '../../src/http1/events.js';
import { RequestParser } from '../../src/http1/request-parser.js';
import { Cors } from '../../src/domain/cors.js';
import { isAccessToken } from '../../src/domain/secret.js';
import { printable } from '../../src/util/text.js';
import { Router } from '../../src/policy/routes.js';
import { responseHeaders, responseTrailers } from '../../src/upstream/response.js';
import { createForwardAuthHeaders, createRequestHeaders } from '../../src/upstream/request-headers.js';
import { refuseHandshake } from '../../src/upstream/handshake.js';
import { protocolOf, readOriginalRequest } from '../../src/listeners/decision/protocols.js';
import { FALLBACK, BUILT_IN, TABLE } from '../properties/paths.js';

/**
 * Every parser exposed to clients takes time proportional to its input: twice the input, about
 * twice the time. Inputs repeat each token of a language, and each pair of tokens. Such repetition
 * makes backtracking, repeated searching and repeated copying grow.
 */
const SIZE = 32 * 1024;
/**
 * Longest time for 64 KiB, in milliseconds: twice that of the slowest parser on an idle core of a
 * small virtual machine.
 */
const MOST_MS = 2.5;
/** Time that {@link readReference} takes there, in milliseconds; on a slower machine more is allowed. */
const REFERENCE_MS = 1.2;
/** Largest growth for twice the input. Quadratic time grows by 4; short times vary. */
const MOST_GROWTH = 3.2;
/** Shortest time, in milliseconds, that says anything about growth. */
const LEAST_MS = 0.7;
const ATTEMPTS = 60;

const APP = 'https://app.example';
const CORS = new Cors({
  origins: [APP],
  methods: null,
  headers: ['X-A'],
  expose: [],
  credentials: false,
  max_age: 0,
});

const LIMITS = { head_size: 1e9, head_fields: 1e9, target_size: 1e9 };
const NAMES = {
  key: 'service-key',
  keyHeaders: ['x-api-key'],
  otp: 'service-otp',
  sessionCookie: 'service.session',
  basic: true,
  bearer: true,
  jwt: true,
  jwtFields: [],
  jwtCookies: [],
};
const SOCKET = { remoteAddress: '127.0.0.1' };
const readHead = createHeadReader(NAMES, LIMITS, createClientReader(['127.0.0.1', '10.0.0.0/8']));
const router = new Router(TABLE, FALLBACK, BUILT_IN);
const requestHeaderSettings = {
  protectedNames: ['X-Auth-User-Id'],
  protectedPrefixes: ['x-auth-'],
  credentialNames: ['Service-Key', 'Service-OTP'],
  credentialCookies: [NAMES.sessionCookie],
  ownCookies: ['latchkey-login-'],
  forwardCredentials: false,
  schemes: NAMES,
  isOwnJwt: (jwt: string) => unverifiedClaims(jwt)?.['iss'] === 'https://issuer.example',
  tracing: false,
};
const requestHeaders = createRequestHeaders(requestHeaderSettings);
const forwardAuthHeaders = createForwardAuthHeaders(requestHeaderSettings);

function headOf(fields: readonly string[], url = '/') {
  const rawHeaders = [...fields];
  if (!fields.includes('Host')) rawHeaders.push('Host', 'a');
  return readHead({ method: 'GET', url, httpVersion: '1.1', rawHeaders, socket: SOCKET });
}

/** Everything that is done with a head before and after the gate. */
function takeHead(fields: readonly string[], url = '/'): void {
  const head = headOf(fields, url);
  if ('refusal' in head) return;
  refuseCrossOrigin({ ...head, method: 'POST' }, new Set());
  refuseHandshake(head);
  requestHeaders(head, [], 'id', '');
  forwardAuthHeaders.refuse(head, false);
  forwardAuthHeaders.removed(head, forwardAuthHeaders.fields(head, []));
  isAccessToken(head.key ?? '');
}

function takeTarget(target: string): void {
  const parsed = parseTarget(target);
  if (typeof parsed === 'string') return;
  const match = router.find('GET', parsed.path, parsed.readings);
  if (typeof match === 'string') return;
  const byQuery = { ...match, route: { ...match.route, service: { from: 'query', name: 'svc' } as const } };
  serviceOf({ ...(headOf([]) as RequestHead), query: parsed.query }, byQuery);
}

function takeBody(text: string, type: string): void {
  const body = parseBody(Buffer.from(text), type);
  if ('refusal' in body) return;
  readLogin(body);
  readCreateToken(body, text);
  readSudo(body);
  readRevokeTokens(body);
}

/** Parses bytes from a client in pieces, as a connection delivers them. */
function takeBytes(text: string, piece: number): void {
  const wide = {
    head_size: 1e9,
    trailer_size: 1e9,
    chunk_line_size: 1e9,
    extensions_size: 1e9,
    head_fields: 1e9,
  };
  const parser = new RequestParser({ ...DEFAULT_LIMITS, ...wide });
  const bytes = Buffer.from(text, 'latin1');
  for (let from = 0; from < bytes.length; from += piece) {
    parser.feed(bytes.subarray(from, from + piece));
    for (let event = parser.next(); event !== 0; event = parser.next()) if (event >= 5) return;
  }
}

const FORM = 'application/x-www-form-urlencoded';
const COOKIES = [
  ';',
  '; ',
  '=',
  'a',
  ' ',
  '\t',
  '"',
  'service.session',
  '__Host-service.session=',
  'service.session=x;',
  'é',
];
const LISTS = [
  ',',
  ', ',
  ' ',
  '\t',
  'a',
  '"',
  ';',
  '=',
  '127.0.0.1',
  '10.0.0.1,',
  '::1',
  '[',
  ']',
  ':',
  '1',
  'close,',
  'x-a,',
  '-',
  '.',
  '/',
  '%',
];
const TOKENS: Readonly<Record<string, { tokens: readonly string[]; pairs?: true; reads?: number; run: (text: string) => void }>> = {
  'HTTP/1.1 heads': {
    tokens: ['a', ' ', '\t', ' a', 'a:', 'a:b\r\n', 'a: \r\n', 'a:b\r\na', 'Connection:a,\r\n', '\xff'],
    reads: 3,
    run: (text) => {
      const head = 'GET / HTTP/1.1\r\nHost: a\r\n';
      for (const field of ['', 'Connection: ', 'X: ']) takeBytes(`${head}${field}${text}`, 32);
    },
  },
  'HTTP/1.1 chunks': {
    tokens: ['1\r\na\r\n', '1;a\r\na\r\n', ';a', ';a="', '\\"', '0\r\n', '0\r\na:b\r\n', 'a:b\r\n'],
    reads: 3,
    run: (text) => {
      const head = 'POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n';
      for (const start of ['', '1', '0\r\n']) takeBytes(head + start + text, 32);
    },
  },
  form: {
    pairs: true,
    tokens: ['%EF&', '%EF', '%', '%4', '%41', '%EF%BF%BD', '&', '=', '+', 'a', 'a&', 'a=b&', '[', ']', '[0]', '[1', 'services[]=A&', 'scope&', ';', '\u00e9', '\ufffd', '\0'],
    run: (text) => takeBody(text, FORM),
  },
  'form with a name': {
    tokens: ['[', '[1', ']', '1', '[]', '%5B', '_', 's'],
    run: (text) => takeBody(`services${text}=A&expires_at${text}`, FORM),
  },
  JSON: {
    pairs: true,
    tokens: ['[', '{', '[]', '{}', '[1,', '{"a":', '"', '\\', '\\u0041', '1', '1e', '-', ' ', '\n', 'null,', 'é'],
    run: (text) => takeBody(text, 'application/json'),
  },
  'well-formed JSON': {
    reads: 3,
    tokens: ['"services[]"', '"a"', '"1"', '"é"', '[]', '{}', 'null', '1', 'true', '""'],
    run: (text) => {
      const items = text.replaceAll(/(?<=["\]}el1])(?=["[{nt1])/g, ',').slice(0, SIZE * 2);
      for (const whole of [`{"services":[${items}]}`, `{"data":[${items}]}`, `[${items}]`]) takeBody(whole, 'application/json');
    },
  },
  'JSON with many names': {
    tokens: ['a', '1', 'scope', 'services[0]', '__proto__'],
    run: (text) => {
      const members = Array.from({ length: text.length / 18 }, (_, i) => `"${text.slice(0, 8)}${i}":${i}`);
      takeBody(`{${members.join()}}`, 'application/json');
    },
  },
  'deeply nested JSON': {
    reads: 2,
    tokens: ['[', '{"a":'],
    run: (text) => {
      const depth = Math.floor(text.length / 6);
      takeBody(`{"services":${'['.repeat(depth)}${']'.repeat(depth)}}`, 'application/json');
      takeBody(`${'{"data":'.repeat(depth / 2)}1${'}'.repeat(depth / 2)}`, 'application/json');
    },
  },
  'content type': {
    tokens: [';', ' ', '+json', '/', 'a', '"', '='],
    run: (text) => void parseBody(Buffer.from('a=b'), text),
  },
  cookie: {
    pairs: true,
    tokens: COOKIES,
    run: (text) => takeHead(['Cookie', text]),
  },
  target: {
    tokens: ['/', 'a', '/a', '%2F', '%2f', '%41', '%', '%zz', ';', ';a', '.', '/.', '/..', '%2e', '//', '?', '&', '=', 'svc=1&', '+', '/purge', ':'],
    run: (text) => takeTarget(`/files/a${text}`),
  },
  query: { tokens: ['&', '=', 'svc', 'svc=1&', '%', '%41', '%EF&', '%EF', '+', ';', '?', '/'], run: (text) => takeTarget(`/a?${text}`) },
  'method and target of a check': {
    tokens: ['/', 'a', '?', '%2F', ';'],
    run: (text) => {
      const form = protocolOf('/auth-request');
      if (form !== undefined) readOriginalRequest(form, { rawHeaders: ['X-Original-Method', text, 'X-Original-URI', text] });
      protocolOf(`/ext_authz/${text}`);
    },
  },
  ...Object.fromEntries(
    ['Host', 'X-Forwarded-For', 'X-Forwarded-Host', 'X-Forwarded-Proto', 'Forwarded', 'traceparent', 'tracestate', 'Connection', 'Origin',
      'Upgrade', 'Expect', 'TE', 'Content-Type', 'Content-Length', 'Transfer-Encoding', 'Accept-Encoding', 'Service-Key', 'Service-OTP', 'Authorization',
      'Sec-Fetch-Site', 'Sec-WebSocket-Key', 'Sec-WebSocket-Version', 'Sec-WebSocket-Extensions', 'User-Agent', 'Service-Worker'].map((name) => [
      name,
      { tokens: LISTS, run: (text: string) => takeHead([name, text]) },
    ]),
  ),
  'JWTs in Authorization': {
    tokens: ['a.a. ', 'a.a,', 'e30.e30. ', 'e30.e30.a,', 'eyJhIjoxfQ.eyJhIjoxfQ.a ', 'lk', 'YS5h'],
    run: (text) => {
      for (const scheme of ['', 'Bearer ', 'Basic ']) takeHead(['Authorization', scheme + text]);
    },
  },
  'a handshake': {
    tokens: LISTS,
    run: (text) => takeHead(['Upgrade', 'websocket', 'Sec-WebSocket-Version', '13', 'Sec-WebSocket-Key', text]),
  },
  'many fields': {
    reads: 4,
    tokens: ['a', 'X-Auth-', 'Cookie', 'Connection', 'X-Forwarded-For', 'x_auth.', 'Sec-WebSocket-Key'],
    run: (text) => {
      const fields = Array.from({ length: text.length / 64 }, (_, i) => [text.slice(0, 8), `x-${i}`]).flat();
      takeHead(fields);
      takeHead(fields.map((each, i) => (i % 2 === 0 ? `${each}${i}` : each)));
      fieldsOfHttp2(fields, 1e9);
      fieldsOfHttp2(fields.map((each, i) => (i % 2 === 0 ? 'cookie' : each)), 1e9);
    },
  },
  'an answer': {
    tokens: [...COOKIES, ...LISTS],
    run: (text) => {
      const raw = ['Set-Cookie', text, 'Connection', text, 'Content-Type', text, 'Service-Worker-Allowed', text];
      responseHeaders(200, raw, ['X-Request-Id', 'x'], [NAMES.sessionCookie, 'latchkey-login-']);
      responseTrailers(raw, raw, ['X-Request-Id', 'x']);
    },
  },
  'Vary of a response': {
    tokens: [...LISTS, 'Origi', '*'],
    run: (text) => void responseHeaders(200, ['Vary', text], [], [NAMES.sessionCookie, 'latchkey-login-'], false, CORS.headersFor(undefined)),
  },
  'the headers of a preflight': {
    tokens: [...LISTS, 'x-a'],
    run: (text) => void CORS.preflightFields({ origin: APP, method: 'GET', headers: text }, ['GET']),
  },
  'many fields of a response': {
    tokens: ['a', 'Set-Cookie', 'Connection'],
    run: (text) => {
      const fields = Array.from({ length: text.length / 16 }, (_, i) => [text.slice(0, 10), `x-${i}`]).flat();
      responseHeaders(200, fields, ['X-Request-Id', 'x'], [NAMES.sessionCookie, 'latchkey-login-']);
    },
  },
  'a log line': { tokens: ['\u200b', '\u0007', 'a', '\u2028', 'é'], run: (text) => void printable(text) },
}; // prettier-ignore

/** The minimum processor time over several runs, which excludes time of other processes. */
function timeOf(run: () => void): number {
  let least = Infinity;
  for (let i = 0; i < 2; i++) {
    const before = process.cpuUsage();
    run();
    const { user, system } = process.cpuUsage(before);
    least = Math.min(least, (user + system) / 1000);
  }
  return least;
}

const REFERENCE_TEXT = 'a;b=c, '.repeat(150_000);
let reference = 0;
/** Reads a megabyte of characters, like a parser. */
function readReference(): void {
  for (let i = 0; i < REFERENCE_TEXT.length; i++)
    reference = (reference * 31 + REFERENCE_TEXT.charCodeAt(i)) | 0;
}

/** {@link MOST_MS} for this machine. */
function mostMs(): number {
  const times = Array.from({ length: 40 }, () => timeOf(readReference));
  return MOST_MS * Math.max(1, Math.min(...times) / REFERENCE_MS);
}
const most = mostMs();

/** @param size in bytes */
const repeated = (text: string, size: number) => text.repeat(size / Buffer.byteLength(text));

/** Repeats each token, each pair of tokens in turn, and one token many times before another. */
function* inputsOf(tokens: readonly string[], pairs: boolean): Generator<readonly [string, (size: number) => string]> {
  for (const [i, a] of tokens.entries()) {
    yield [JSON.stringify(a), (size) => repeated(a, size)];
    for (const b of tokens) {
      if (a === b) continue;
      if (pairs) yield [JSON.stringify(a + b), (size) => repeated(a + b, size)];
      // For most languages, a few final tokens are enough.
      if (pairs || b === tokens[(i + 1) % tokens.length])
        yield [`${JSON.stringify(a)}..${JSON.stringify(b)}`, (size) => repeated(a, size) + b];
    }
  }
} // prettier-ignore

for (const [name, { tokens, run, pairs = false, reads = 1 }] of Object.entries(TOKENS)) {
  t.test(`${name}: twice the input takes about twice the time`, async (t) => {
    let slowest = 0;
    const faults: string[] = [];
    for (const [told, input] of inputsOf(tokens, pairs)) {
      const [once, twice] = [input(SIZE), input(2 * SIZE)];
      let [short, long] = [Infinity, Infinity];
      for (let attempts = 0; attempts < ATTEMPTS; attempts++) {
        long = Math.min(long, timeOf(() => run(twice)) / reads);
        if (long < LEAST_MS) break;
        short = Math.min(short, timeOf(() => run(once)) / reads);
        if (long < most && long / short < MOST_GROWTH) break;
      }
      slowest = Math.max(slowest, long);
      if (long >= most) faults.push(`${told}: ${long.toFixed(1)} ms`);
      else if (long >= LEAST_MS && long / short >= MOST_GROWTH) faults.push(`${told}: ${(long / short).toFixed(1)} times`);
    }
    t.same(faults, [], `at most ${slowest.toFixed(2)} of ${most.toFixed(2)} ms for 64 KiB`);
  }); // prettier-ignore
}
