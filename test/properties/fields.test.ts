import * as fc from 'fast-check';
import type { Arbitrary } from 'fast-check';
import type { RequestHead } from '../../src/http/head.js';
import { foldName, ProtectedFields } from '../../src/http/protected-fields.js';
import { createRequestHeaders } from '../../src/upstream/request-headers.js';
import { property } from '../helpers/property.js';

const IDENTITY = [
  'User-Id',
  'Customer-Id',
  'Login',
  'Role',
  'Scope',
  'Services',
  'Credential',
  'Token-Id',
].map((name) => `X-Auth-${name}`);
const PROTECTED = [
  ...IDENTITY,
  ...'Service-Key Service-OTP Host Content-Length Transfer-Encoding Expect Proxy'.split(' '),
  ...'Connection Keep-Alive Proxy-Connection Proxy-Authorization TE Trailer Upgrade'.split(' '),
  ...'Forwarded X-Real-IP X-Original-URL X-Rewrite-URL X-HTTP-Method X-Request-Id'.split(' '),
  ...'X-HTTP-Method-Override X-Method-Override X-Forwarded-For X-Forwarded-Proto'.split(' '),
  ...'X-Forwarded-Host X-Forwarded-Port X-Forwarded-User X-Forwarded-Anything'.split(' '),
  ...'X-Forwarded Forwarded-For Client-IP CF-Connecting-IP Remote-Addr X-Override-URL Path-Info'.split(' '),
];
const FREE = [
  'Accept',
  'Content-Type',
  'User-Agent',
  'Authorization',
  'Referer',
  'Origin',
  'Range',
  'If-Match',
  'X-Auth',
  'X-Auth-User',
  'X-Auth-User-Idx',
  'AX-Auth-User-Id',
  'X-Auth--User-Id',
  'XAuthUserId',
  'X-Original-Filename',
  'X-Method',
  'X~Auth',
  'Service',
  'Service-Key2',
  'Content-Lengthy',
  'Host2',
  'constructor',
  '__proto__',
  'X-ForwardedFor',
  'Tee',
];
const HOP_OPTIONS = ['keep-alive', 'close', 'Upgrade', 'content-length', 'cookie', '', ' '];

/** The variable that a gateway to CGI, WSGI or PHP derives from the name. */
const variable = (name: string) => name.toUpperCase().replace(/[^A-Z0-9]/g, '_');
const PROTECTED_VARIABLES = new Set(PROTECTED.map(variable));

/** Characters of a name other than letters and digits (RFC 9110 5.6.2). */
const SEPARATORS = "-!#$%&'*+.^_`|~";

/** The name in any letter case, with any separators that map to the same character. */
function spelled(name: string): Arbitrary<string> {
  return fc.infiniteStream(fc.nat(29)).map((dice) =>
    name
      .split('')
      .map((char) => {
        const roll = dice.next().value as number;
        if (char === '-') return SEPARATORS[roll] ?? '-';
        return roll < 15 ? char.toLowerCase() : char.toUpperCase();
      })
      .join(''),
  );
}

/** A Cookie field with the session in it, and what should remain of it. */
const COOKIE = ['a=1; service.session=EVIL-1; b=2', 'a=1; b=2'] as const;
const latin1 = fc
  .array(
    fc.integer({ min: 0x20, max: 0xff }).filter((code) => code !== 0x7f),
    { maxLength: 12 },
  )
  .map((codes) => String.fromCharCode(...codes).trim());
const free = fc.constantFrom(...FREE);
const evil = fc.constantFrom(...PROTECTED).chain(spelled);
const field = fc.oneof(
  fc.tuple(free, latin1),
  fc.tuple(fc.constantFrom('Cookie', 'cookie', 'COOKIE'), fc.constant<string>(COOKIE[0])),
  fc.tuple(
    evil,
    fc.nat(999).map((n) => `EVIL-${n}`),
  ),
  fc.tuple(
    fc.constantFrom('Connection', 'connection', 'CONNECTION'),
    fc
      .array(fc.oneof(fc.constantFrom(...HOP_OPTIONS), free, evil), { minLength: 1, maxLength: 4 })
      .map((names) => names.join(',')),
  ),
);
const requests = fc.record({
  fields: fc.array(field, { maxLength: 14 }),
  injected: fc.subarray(IDENTITY).map((names) => names.flatMap((name) => [name, `GOOD-${name}`])),
  secure: fc.boolean(),
  host: fc.constantFrom('', 'api.example', 'localhost:8080'),
});

const NAMES = {
  protectedNames: IDENTITY,
  protectedPrefixes: [],
  credentialNames: ['service-key', 'service-otp'],
};
const requestHeaders = createRequestHeaders({
  ...NAMES,
  credentialCookies: ['service.session'],
  ownCookies: [],
  forwardCredentials: false,
  schemes: { basic: true, bearer: true, jwt: false },
  tracing: false,
});

/** Builds a head with the parts that matter here. */
function headOf(fields: string[], secure: boolean, host: string): RequestHead {
  const connections = fields.filter((_, i) => i % 2 === 1 && fields[i - 1]?.toLowerCase() === 'connection');
  const client = { address: '192.0.2.1', secure, host, forwardedFor: '192.0.2.1', port: '', prefix: '' };
  const connection = connections.length === 0 ? undefined : connections.join(', ');
  return { fields, client, connection } as unknown as RequestHead;
}

property(
  'removes protected fields of the client, keeps the rest byte for byte, and appends its own once',
  6_000,
  requests,
  ({ fields, injected, secure, host }) => {
    const flat = fields.flat();
    const out = requestHeaders(headOf(flat, secure, host), injected, 'REQUEST-ID', '');
    const pairs = pairsOf(out);
    const options = new Set(
      fields
        .filter(([name]) => name.toLowerCase() === 'connection')
        .flatMap(([, value]) => value.split(','))
        .map((option) => option.trim().toLowerCase()),
    );
    const kept = fields
      .filter(([name]) => !PROTECTED_VARIABLES.has(variable(name)) && !options.has(name.toLowerCase()))
      .map(([name, value]) => [name, value === COOKIE[0] ? COOKIE[1] : value]);
    const own = [
      ['X-Forwarded-For', '192.0.2.1'],
      ['X-Forwarded-Proto', secure ? 'https' : 'http'],
      ...(host === '' ? [] : [['X-Forwarded-Host', host]]),
      ['X-Request-Id', 'REQUEST-ID'],
    ];
    same(pairs, [...kept, ...own, ...pairsOf(injected)]);
    if (out.some((text) => text.includes('EVIL')))
      throw new Error('a value of a protected field went through');
    const variables = pairs.map(([name]) => variable(name ?? ''));
    for (const name of IDENTITY.map(variable)) {
      const wanted = injected.some((each) => variable(each) === name) ? 1 : 0;
      const found = variables.filter((each) => each === name).length;
      if (found !== wanted) throw new Error(`${name} comes ${found} times`);
    }
  },
);

const protectedFields = new ProtectedFields(NAMES);

property('only the exact protected name is not an alias, whatever its separators', 20_000, evil, (name) => {
  const exact = /^[a-z0-9-]+$/i.test(name);
  if (!protectedFields.has(foldName(name))) throw new Error(`${name} is not protected`);
  if (protectedFields.isAlias(name) === exact) throw new Error(`${name} is taken for what it is not`);
});

property(
  'a name is protected if its variable is that of a protected name, and is not an alias otherwise',
  20_000,
  fc.oneof(free, fc.array(fc.constantFrom(...SEPARATORS.split(''), 'a', 'Z', '7', 'X-Auth', 'Role'), { minLength: 1, maxLength: 6 }).map((parts) => parts.join(''))),
  (name) => {
    const wanted = PROTECTED_VARIABLES.has(variable(name));
    if (protectedFields.has(foldName(name)) !== wanted) throw new Error(`${name} is ${wanted ? 'not ' : ''}protected`);
    if (!wanted && protectedFields.isAlias(name)) throw new Error(`${name} is no alias`);
  },
); // prettier-ignore

property('one build does not affect the next', 1_000, fc.tuple(requests, requests), ([before, now]) => {
  const build = ({ fields, injected, secure, host }: typeof now) =>
    requestHeaders(headOf(fields.flat(), secure, host), injected, 'ID', '');
  const first = build(now);
  build(before);
  same(build(now), first);
});

function pairsOf(flat: readonly string[]): string[][] {
  const pairs: string[][] = [];
  for (let i = 0; i < flat.length; i += 2) pairs.push([flat[i] ?? '', flat[i + 1] ?? '']);
  return pairs;
}

function same(found: unknown, wanted: unknown): void {
  if (JSON.stringify(found) !== JSON.stringify(wanted))
    throw new Error(`${JSON.stringify(found)} is not ${JSON.stringify(wanted)}`);
}
