import * as fc from 'fast-check';
import t from 'tap';
import {
  cookieValues,
  formatSessionCookie,
  LOGIN_STATE_COOKIE,
  maySetCookie,
} from '../../src/http/cookies.js';
import { withoutCookie } from '../../src/upstream/request-headers.js';
import { property } from '../helpers/property.js';

const NAME = 'service.session';
const SECRET = 'S3cr3tS3cr3tS3cr3t-_S3cr3tS3cr3tS3cr3tS3c';

/**
 * A reference parser for RFC 6265 5.4: pairs between semicolons, blanks around a pair are ignored,
 * the name ends at the first `=`.
 */
function reference(field: string): { name: string; value: string }[] {
  const pairs: { name: string; value: string }[] = [];
  let rest = field;
  while (rest !== '') {
    const end = rest.indexOf(';');
    const pair = (end < 0 ? rest : rest.slice(0, end)).replace(/^[ \t]+|[ \t]+$/g, '');
    rest = end < 0 ? '' : rest.slice(end + 1);
    const equals = pair.indexOf('=');
    if (equals >= 0) pairs.push({ name: pair.slice(0, equals), value: pair.slice(equals + 1) });
  }
  return pairs;
}

const blank = fc.constantFrom('', ' ', ' ', '  ', '\t');
const visible = fc
  .array(
    fc.integer({ min: 0x21, max: 0x7e }).filter((code) => code !== 0x3b),
    { maxLength: 8 },
  )
  .map((codes) => String.fromCharCode(...codes));
const other = fc.oneof(
  {
    weight: 4,
    arbitrary: fc
      .tuple(fc.constantFrom('a', 'lang', 'x.y', '$Version', '__Host-a'), visible)
      .map((p) => p.join('=')),
  },
  { weight: 2, arbitrary: visible.filter((text) => !text.startsWith(NAME)) },
  {
    weight: 2,
    arbitrary: fc.constantFrom(
      '',
      '=',
      '=x',
      'HttpOnly',
      'Path=/',
      'Max-Age=43200',
      'SameSite=Lax',
      'service',
      'service.sessio=x',
      'service.session2=x',
      'xservice.session=x',
      'Service.Session=x',
      'service_session=x',
      '"service.session=x"',
    ),
  },
);
const session = fc.constantFrom(`${NAME}=${SECRET}`, `${NAME}=${SECRET}==`, `${NAME}="${SECRET}"`);
const hidden = fc.constantFrom(
  `__Host-${NAME}=${SECRET}`,
  `__Secure-${NAME}=${SECRET}`,
  `${NAME} =${SECRET}`,
  `${NAME}\t= ${SECRET}`,
);

/** A Cookie field, and its cookies other than the session. */
const fields = fc
  .array(
    fc.tuple(
      blank,
      fc.oneof(
        { weight: 6, arbitrary: other.map((text) => ({ text, ours: false })) },
        { weight: 1, arbitrary: session.map((text) => ({ text, ours: true })) },
        { weight: 1, arbitrary: hidden.map((text) => ({ text, ours: true })) },
      ),
      blank,
    ),
    { maxLength: 7 },
  )
  .map((parts) => ({
    field: parts.map(([before, { text }, after]) => before + text + after).join(';'),
    others: parts.filter(([, { ours }]) => !ours).map(([, { text }]) => text),
  }));

property('finds the session exactly where a reference parser does', 6_000, fields, ({ field }) => {
  const wanted = reference(field)
    .filter(({ name }) => name === NAME)
    .map(({ value }) => value);
  same(cookieValues(field, NAME), wanted, field);
});

property(
  'removing the session leaves no trace of it, and every other cookie',
  6_000,
  fields,
  ({ field, others }) => {
    const left = withoutCookie(field, NAME);
    if (left.includes(SECRET)) throw new Error(`the secret is left of ${JSON.stringify(field)}`);
    same(cookieValues(left, NAME), [], field);
    const words = (text: string) =>
      text
        .split(';')
        .map((pair) => pair.trim())
        .filter((pair) => pair !== '');
    same(words(left), others.flatMap(words), field);
  },
);

property('a field without the session stays the same, byte for byte', 2_000, fc.array(other), (pairs) => {
  const field = pairs.join('; ');
  if (!field.includes(NAME)) same(withoutCookie(field, NAME), field, field);
});

property(
  'removal leaves no session in any text, and is idempotent',
  4_000,
  fc.oneof(
    fc.string({ unit: fc.constantFrom(...';= \t"\\,x'.split(''), NAME, SECRET, `__Host-${NAME}`) }),
    fc.string({ unit: 'binary' }),
  ),
  (field) => {
    const left = withoutCookie(field, NAME);
    same(cookieValues(left, NAME), [], field);
    same(withoutCookie(left, NAME), left, field);
  },
);

property(
  'understands a client that returns the whole Set-Cookie, with other cookies around it',
  1_000,
  fc.tuple(fc.array(fc.constantFrom('a=1', 'b=2')), fc.boolean(), fc.nat(99_999)),
  ([around, secure, maxAge]) => {
    const whole = formatSessionCookie({ name: NAME, value: SECRET, maxAge, secure });
    const field = [...around, whole, ...around].join('; ');
    same(cookieValues(field, NAME), [SECRET], field);
    if (withoutCookie(field, NAME).includes(SECRET)) throw new Error(field);
  },
);

/** What clients make of a Set-Cookie text when they send it back as Cookie. */
const CLIENTS: Record<string, (setCookie: string) => string[]> = {
  'the whole text': (text) => [text],
  'the pair': (text) => [pairOf(text)],
  'the pair, trimmed': (text) => [pairOf(text).trim()],
  'name and value, trimmed': (text) => [sides(text).map((side) => side.trim()).join('=')],
  'name and value without control characters': (text) => [sides(text).map((side) => side.replace(/\p{Cc}/gu, '')).join('=')],
  'the value of a nameless cookie': (text) => (sides(text)[0]?.trim() === '' ? sides(text).slice(1) : []),
  'several cookies between commas': (text) => text.split(',').map((each) => pairOf(each).trim()),
}; // prettier-ignore

function pairOf(setCookie: string): string {
  return setCookie.split(';', 1)[0] ?? '';
}

/** The name and the value; a browser takes a pair without `=` as the value. */
function sides(setCookie: string): [string, string] {
  const pair = pairOf(setCookie);
  const equals = pair.indexOf('=');
  return equals < 0 ? ['', pair] : [pair.slice(0, equals), pair.slice(equals + 1)];
}

/** Set-Cookie texts with a cookie in each place where a reader may find one. */
const PLACES: readonly ((cookie: string) => string)[] = [
  (cookie) => cookie,
  (cookie) => `${cookie}; Path=/`,
  (cookie) => `=${cookie}`,
  (cookie) => `a=b; ${cookie}`,
  (cookie) => `a=b;${cookie}; Path=/`,
  (cookie) => `a="b; ${cookie}"`,
  (cookie) => `a=b; Max-Age=9, ${cookie}`,
];

t.test('no upstream can set a cookie that Latchkey reads, with any byte at any place', (t) => {
  const state = `${LOGIN_STATE_COOKIE}a1`;
  const names = [NAME, `__Host-${NAME}`, state, `__Host-${state}`];
  const planted: string[] = [];
  for (const name of names)
    for (const setCookie of textsWith(name))
      for (const [client, sent] of Object.entries(CLIENTS))
        if (isRead(sent(setCookie), names) && !maySetCookie(setCookie, [NAME, LOGIN_STATE_COOKIE]))
          planted.push(`${client} of ${JSON.stringify(setCookie)}`);
  t.same(planted.slice(0, 20), []);
  t.end();
});

/** Set-Cookie texts that hold a cookie with one more byte before, in and after its name. */
function* textsWith(name: string): Generator<string> {
  for (const place of PLACES)
    for (let byte = 0; byte < 256; byte++)
      for (let at = 0; at <= name.length + 1; at++)
        yield place(inserted(`${name}=${SECRET}`, at, String.fromCharCode(byte)));
}

function inserted(text: string, at: number, added: string): string {
  return text.slice(0, at) + added + text.slice(at);
}

function isRead(cookies: readonly string[], names: readonly string[]): boolean {
  return cookies.some((cookie) => names.some((name) => cookieValues(cookie, name).length > 0));
}

function same(found: unknown, wanted: unknown, about: string): void {
  if (JSON.stringify(found) !== JSON.stringify(wanted))
    throw new Error(`${JSON.stringify(about)}: ${JSON.stringify(found)} is not ${JSON.stringify(wanted)}`);
}
