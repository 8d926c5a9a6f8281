import * as fc from 'fast-check';
import t from 'tap';
import { Params, parseBody } from '../../src/http/body.js';
import { property } from '../helpers/property.js';

const FORM = 'application/x-www-form-urlencoded';
const TRICKY = [
  '__proto__',
  'constructor',
  'toString',
  'hasOwnProperty',
  '',
  'services[]',
  'a&b',
  'a=b',
  'a+b',
  '%41',
];

const text = fc.oneof(
  fc.constantFrom(...TRICKY, 'username', 'password', ' ', '\u0000', '\r\n', '\u{1f600}', '\ufeffx'),
  fc.string({ unit: 'grapheme' }).map((each) => each.toWellFormed()),
);
const pairs = fc.array(fc.tuple(text, text), { minLength: 1, maxLength: 8 });

/** Form encoding (WHATWG URL 5.2), with a random choice of unnecessary escapes. */
function encode(value: string, dice: Iterator<number>): string {
  let out = '';
  for (const byte of Buffer.from(value)) {
    const char = String.fromCharCode(byte);
    const roll = dice.next().value as number;
    if (byte === 0x20 && roll > 0) out += '+';
    else if (/[A-Za-z0-9*._-]/.test(char) && roll > 0) out += char;
    else out += `%${byte.toString(16).padStart(2, '0')}`;
  }
  return out;
}

property(
  'a form decodes to every name and value, in order',
  3_000,
  fc.tuple(
    pairs,
    fc.infiniteStream(fc.nat(4)),
    fc.constantFrom(FORM, `${FORM};charset=UTF-8`, FORM.toUpperCase()),
  ),
  ([given, dice, type]) => {
    const form = given.map(([name, value]) => `${encode(name, dice)}=${encode(value, dice)}`).join('&');
    check(parseBody(Buffer.from(form), type), given);
  },
);

property(
  'JSON with the same names decodes to the same parameters',
  2_000,
  fc.tuple(
    pairs,
    fc.constantFrom('application/json', 'application/vnd.api+json', 'Application/JSON; charset=utf-8'),
  ),
  ([given, type]) => {
    const last = new Map(given);
    const members = [...last].map(([name, value]) => `${JSON.stringify(name)}:${JSON.stringify(value)}`);
    check(parseBody(Buffer.from(`{${members.join(',')}}`), type), [...last]);
  },
);

property(
  'any bytes of any type are refused or parsed; nothing throws, and no prototype changes',
  6_000,
  fc.tuple(
    fc.oneof(
      fc.uint8Array({ maxLength: 60 }).map((bytes) => Buffer.from(bytes)),
      fc.json().map((json) => Buffer.from(json)),
      fc
        .string({ unit: fc.constantFrom(...'&=%+?;[]{}":,0a\u00e9'.split('')) })
        .map((each) => Buffer.from(each)),
    ),
    fc.oneof(
      fc.constantFrom(
        undefined,
        '',
        FORM,
        'application/json',
        'a/b+json',
        'multipart/form-data',
        ';',
        FORM + ';',
      ),
      fc.string(),
    ),
  ),
  ([bytes, type]) => {
    const body = parseBody(bytes, type);
    if ('refusal' in body) {
      if (body.refusal !== 'malformed' || !('detail' in body)) throw new Error(JSON.stringify(body));
    } else if (!(body.params instanceof Params) || typeof body.params.one('toString') === 'function') {
      throw new Error('no parameters');
    }
    if (Object.keys(Object.prototype).length > 0) throw new Error('the prototype has a member');
  },
);

t.test('JSON without members is an empty body', async (t) => {
  for (const text of ['{}', '[]', 'null']) {
    const body = parseBody(Buffer.from(text), 'application/json');
    t.ok('params' in body && body.params.size === 0, text);
  }
});

property(
  'any form parses as URLSearchParams does, or is refused if that would replace bytes, or begins as JSON',
  6_000,
  fc.array(
    fc.oneof(
      fc.constantFrom(...'&=%+?;[]{}0aF\u00e9\ufeff\ufffd'.split(''), '%41', '%e9', '%C3%A9', '%EF%BF%BD', '%EF%BB%BF', '%', '%4', '%zz', '%C3', '\u00c3%A9', '%F0%9F%98%80', '&&', '=='),
      fc.string({ unit: 'grapheme', maxLength: 2 }).map((each) => each.toWellFormed()),
    ),
    { maxLength: 12 },
  ).map((parts) => parts.join('')),
  (form) => {
    // Escaped first: Node's URLSearchParams takes characters for bytes if an escape is not UTF-8.
    const text = (form.startsWith('\ufeff') ? form.slice(1) : form).replaceAll(/[^\0-\x7f]+/g, encodeURIComponent);
    const components = text.split('&').flatMap((pair) => pair.split(/=(.*)/s, 2));
    const replaces = components.some((part) => {
      const decoded = new URLSearchParams(`a=${part}`).get('a') ?? '';
      return decoded.split('\ufffd').length > part.split(/\ufffd|%EF%BF%BD/i).length;
    });
    const body = parseBody(Buffer.from(form), FORM);
    const isRefused = replaces || /^[ \t\r\n]*[{[]/.test(text);
    if (isRefused !== 'refusal' in body) throw new Error(`${JSON.stringify(form)} ${isRefused ? 'is not refused' : 'is fine'}`);
    if (!('refusal' in body)) check(body, [...new URLSearchParams(`&${text}`)]);
  },
); // prettier-ignore

property(
  'a JSON number is read as the text that was sent, or as a value that no check accepts',
  1_000,
  fc.bigInt({ min: -(2n ** 70n), max: 2n ** 70n }),
  (number) => {
    const body = parseBody(Buffer.from(`{"service_id":${number}}`), 'application/json');
    if ('refusal' in body) throw new Error(String(number));
    const isSafe = number >= Number.MIN_SAFE_INTEGER && number <= Number.MAX_SAFE_INTEGER;
    same(body.params.one('service_id'), isSafe ? String(number) : '');
  },
);

property(
  'a repeated name is never read as one value',
  1_000,
  fc.tuple(text, fc.array(text, { minLength: 2, maxLength: 4 }), fc.infiniteStream(fc.nat(4))),
  ([name, values, dice]) => {
    const form = values.map((value) => `${encode(name, dice)}=${encode(value, dice)}`).join('&');
    const body = parseBody(Buffer.from(form), FORM);
    if ('refusal' in body || body.params.one(name) !== undefined) throw new Error(form);
    same(body.params.all(name), values);
  },
);

function check(body: ReturnType<typeof parseBody>, given: readonly (readonly [string, string])[]): void {
  if ('refusal' in body) throw new Error(JSON.stringify(body));
  const { params } = body;
  for (const [name] of given) {
    const values = given.filter(([each]) => each === name).map(([, value]) => value);
    same(params.all(name), values);
    same(params.one(name), values.length === 1 ? values[0] : undefined);
  }
  same(params.all(...given.map(([name]) => name)).toSorted(), given.map(([, value]) => value).toSorted());
  same(params.all('not there'), []);
}

function same(found: unknown, wanted: unknown): void {
  if (JSON.stringify(found) !== JSON.stringify(wanted))
    throw new Error(`${JSON.stringify(found)} is not ${JSON.stringify(wanted)}`);
}

t.test('limits a body to 500 parameters, and to 3,200 JSON values', async (t) => {
  const list = (count: number, item: string) => Array.from({ length: count }, () => item).join(',');
  const rows: [what: string, body: string, type: string, detail: string | null][] = [
    ['parameters', Array.from({ length: 500 }, (_, i) => `n${i}=1`).join('&'), FORM, null],
    ['one more', Array.from({ length: 501 }, () => 'a=1').join('&'), FORM, 'the body has more than 500 parameters'],
    ['members', `{${Array.from({ length: 500 }, (_, i) => `"n${i}":1`).join()}}`, 'application/json', null],
    ['one more', `{${list(501, '"a":1')}}`, 'application/json', 'a JSON object has more than 500 members'],
    ['texts in a list', `{"a":[${list(500, '"x"')}]}`, 'application/json', null],
    ['one more', `{"a":[${list(501, '"x"')}]}`, 'application/json', 'the body has more than 500 parameters'],
    ['objects in a list', `{"data":[${list(1_500, '{"type":"token","id":"x"}')}]}`, 'application/json', null],
    ['values', `{"a":[${list(3_201, '1')}]}`, 'application/json', 'JSON has more than 3200 values'],
    ['levels', '['.repeat(65), 'application/json', 'JSON is nested deeper than 64 levels'],
  ];
  for (const [what, body, type, detail] of rows) {
    const read = parseBody(Buffer.from(body), type);
    t.equal('refusal' in read && 'detail' in read ? read.detail : null, detail, what);
  }
  const { params } = parseBody(Buffer.from('{"services":["A",5],"n":null,"o":{},"e":[]}'), 'application/json') as { params: Params };
  t.same([params.all('services'), params.all('n'), params.all('o'), params.all('e')], [[''], [], [''], ['']]);
}); // prettier-ignore
