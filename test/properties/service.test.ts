import * as fc from 'fast-check';
import { isRefused, serviceOf } from '../../src/gate/request-rules.js';
import type { RequestHead } from '../../src/http/head.js';
import type { Match } from '../../src/policy/route.js';
import { property, Share } from '../helpers/property.js';
import t from 'tap';

const TCHAR = "!#$%&'*+-.^_`|~";
const matchOf = (from: 'header' | 'query', name: string) =>
  ({ route: { service: { from, name } }, path: '/' }) as unknown as Match;
const byQuery = (query: string) => serviceOf({ query } as RequestHead, matchOf('query', 'service_id'));
const byField = (fields: string[], connection?: string) =>
  serviceOf({ fields, connection } as unknown as RequestHead, matchOf('header', 'service-id')); // prettier-ignore

/** Percent-decodes leniently: invalid escapes stay. */
const decode = (text: string) =>
  Buffer.from(text.replaceAll('+', ' ').replace(/%([0-9a-f]{2})/gi, (_, hex: string) => String.fromCharCode(parseInt(hex, 16))), 'latin1').toString('latin1'); // prettier-ignore
const pairsOf = (query: string, separator: RegExp) =>
  query.split(separator).map((pair): [string, string] => {
    const equals = pair.indexOf('=');
    return equals < 0 ? [pair, ''] : [pair.slice(0, equals), pair.slice(equals + 1)];
  });

/** Query parsers of other languages; each returns the values under the parameter's name. */
const READERS: Readonly<Record<string, (query: string) => string[]>> = {
  // main/php_variables.c: php_register_variable_ex
  PHP: (query) =>
    pairsOf(query, /&/).flatMap(([name, value]) => {
      const start = decode(name).replace(/^ +/, '').split('\0')[0] ?? '';
      const closed = /^([^[]+)\[[^\]]*\]/.exec(start);
      const variable = (closed?.[1] ?? start).replaceAll(/[ .[-]/g, '_');
      return variable === 'service_id' ? [decode(value)] : [];
    }),
  // query_parser.rb of Rack 2: stray brackets go
  Rack: (query) =>
    pairsOf(query, /[&;] */).flatMap(([name, value]) =>
      /^[[\]]*([^[\]]+)\]*/.exec(decode(name).trim())?.[1] === 'service_id' ? [decode(value)] : [],
    ),
  'Python before 3.9.2': (query) =>
    pairsOf(query, /[&;]/).flatMap(([name, value]) => (decode(name) === 'service_id' && value !== '' ? [decode(value)] : [])),
  'case-insensitive': (query) =>
    pairsOf(query, /&/).flatMap(([name, value]) => (decode(name).toLowerCase() === 'service_id' ? [decode(value)] : [])),
  // qs, as Express has it
  qs: (query) =>
    pairsOf(query, /&/).flatMap(([name, value]) =>
      /^(?:service_id(?:\[.*)?|\[service_id\].*)$/.test(decode(name)) ? [decode(value)] : []),
  'that trims spaces': (query) =>
    pairsOf(query, /&/).flatMap(([name, value]) => (decode(name).trim() === 'service_id' ? [decode(value).trim()] : [])),
}; // prettier-ignore

const escaped = (char: string) => `%${char.charCodeAt(0).toString(16).padStart(2, '0')}`;
/** The name, in a spelling that some parser may take for it. */
const spelled = fc
  .tuple(
    fc.constantFrom('', '', '', '+', '%20', '%00', '%09', '[', ']', '_', 'x'),
    fc.infiniteStream(fc.nat(19)),
    fc.constantFrom(
      '',
      '',
      '',
      '',
      '[]',
      '[a]',
      '%5B%5D',
      ']',
      '[',
      '%00',
      '%00x',
      '+',
      '%20',
      '_',
      'x',
      '%',
    ),
  )
  .map(([before, dice, after]) => {
    const roll = () => dice.next().value as number;
    const middle = 'service_id'.split('').map((char) => {
      const turn = roll();
      if (turn === 0) return char.toUpperCase();
      if (turn === 1) return escaped(char);
      if (turn === 2) return `%25${escaped(char).slice(1)}`;
      return char === '_' && turn < 12
        ? ('.-~+[ '.split('').concat(['%20', '%5b', '%2e'])[turn - 3] ?? '_')
        : char;
    });
    return `${before}${middle.join('').replaceAll(' ', '%20')}${after}`;
  });
const value = fc.constantFrom(
  'S1',
  'S2',
  '',
  'S1+',
  '%53%31',
  'S%31',
  'S1;x',
  'S1%00',
  'S1%',
  'S1%2531',
  'S1,S2',
  'a%20b',
  'S1%FF',
  'x=S2',
);
const query = fc
  .array(
    fc.tuple(fc.oneof({ weight: 2, arbitrary: fc.constant('service_id') }, { weight: 2, arbitrary: spelled }, fc.constantFrom('a', 'service', 'id', 'xservice_id')), value, fc.constantFrom('&', '&', '&', ';'), fc.boolean()),
    { maxLength: 4 },
  )
  .map((parts) => parts.map(([name, value, separator, bare]) => `${name}${bare && value === '' ? '' : '='}${value}${separator}`).join('').replace(/[&;]$/, '')); // prettier-ignore

const decided = new Share();
property('every parser finds the judged parameter, and none finds another', 40_000, query, (text) => {
  const service = byQuery(text);
  decided.note(!isRefused(service));
  if (isRefused(service)) return;
  for (const [reader, read] of Object.entries(READERS)) {
    const found = read(text);
    const wanted = service === undefined ? [] : [service];
    if (JSON.stringify(found) !== JSON.stringify(wanted))
      throw new Error(`${text}: judged ${service}, ${reader} reads ${JSON.stringify(found)}`);
  }
}); // prettier-ignore

t.test('the property judges enough of the generated queries', async (t) => {
  t.ok(decided.exceeds(0.1) && decided.part < 0.9, String(decided.part));
});

const fieldName = fc.tuple(fc.constantFrom(...TCHAR.split('')), fc.boolean()).map(([char, upper]) => {
  const name = `Service${char}Id`;
  return upper ? name.toUpperCase() : name;
});
property(
  'only the judged field becomes its variable, and Connection does not remove it',
  4_000,
  fc.tuple(fc.array(fc.tuple(fieldName, fc.constantFrom('S1', 'S2', '', 'S1, S2', 'S%31', 'S1;a', 'é')), { maxLength: 3 }), fc.option(fieldName, { nil: undefined })),
  ([fields, listed]) => {
    const service = byField(fields.flat(), listed === undefined ? undefined : `close, ${listed}`);
    if (isRefused(service)) return;
    if (listed !== undefined) throw new Error(`Connection: ${listed} is let in`);
    const found = fields.map(([, text]) => text);
    const wanted = service === undefined ? [] : [service];
    if (JSON.stringify(found) !== JSON.stringify(wanted)) throw new Error(`${String(service)} of ${JSON.stringify(fields)}`);
    if (service != null && (fields[0]?.[0].toLowerCase() !== 'service-id' || !/^S[12]$/.test(service)))
      throw new Error(`${JSON.stringify(fields)} is let in`);
  },
); // prettier-ignore

t.test('accepts ordinary requests', async (t) => {
  for (const [text, service] of [
    ['service_id=S1', 'S1'],
    ['a=1&service_id=S1&b=2', 'S1'],
    ['service_id=a.example%2Fb%3a1', 'a.example/b:1'],
    ['service_id=S1&filter[name]=x&q=a+b;c&tags[]=1&service=x&id=7&_service_id=x&next=%2F%3Fservice_id%3DS2', 'S1'],
    ['', undefined],
    ['q=100%25&empty', undefined],
  ] as const) t.equal(byQuery(text), service, `"${text}"`); // prettier-ignore
  t.equal(
    byField(['Service-Id', 'S1', 'X-Service-Id', 'S2', 'Service', 'x'], 'keep-alive, X-Service-Id'),
    'S1',
  );
  t.equal(byField(['X', 'y']), undefined);
});

t.test('refuses more parameters than parsers read, and parses a long query quickly', async (t) => {
  t.ok(isRefused(byQuery(`${'a&'.repeat(1_000)}service_id=S1`)));
  t.equal(byQuery(`${'a&'.repeat(999)}service_id=S1`), 'S1');
  const started = performance.now();
  for (const text of ['%25'.repeat(2_700), '['.repeat(8_000), '+'.repeat(8_000) + 'x', ';'.repeat(8_000), '&='.repeat(4_000), '%00'.repeat(2_700)])
    byQuery(text);
  t.ok(performance.now() - started < 250);
}); // prettier-ignore
