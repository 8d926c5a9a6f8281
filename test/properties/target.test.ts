import * as fc from 'fast-check';
import t from 'tap';
import { parseTarget, type Readings, readings, withoutSegments } from '../../src/domain/path.js';
import { Router } from '../../src/policy/routes.js';
import type { Match } from '../../src/policy/route.js';
import { property, Share } from '../helpers/property.js';
import { FALLBACK, BUILT_IN, TABLE, meaningOf, methods, targets, told } from './paths.js';

const router = new Router(TABLE, FALLBACK, BUILT_IN);
const accepted = new Share();

/** Returns the server's match for a target; undefined if it is refused. */
function judge(method: string, target: string): Match | undefined {
  const parsed = parseTarget(target);
  if (typeof parsed === 'string') return undefined;
  const match = router.find(method, parsed.path, parsed.readings);
  return typeof match === 'string' ? undefined : match;
}

/** Parses the path's segments byte by byte: decodes ASCII escapes once, except `%25` and `%2F`. */
function segmentsOf(target: string): string[] {
  const path = target.split('?', 1)[0] ?? '';
  const segments = [''];
  for (let i = 1; i < path.length; i++) {
    let text = path.charAt(i);
    if (text === '%') {
      text = path.slice(i, i + 3).toUpperCase();
      i += 2;
      const byte = Number(`0x${text.slice(1)}`);
      if (byte < 0x80 && text !== '%25' && text !== '%2F') text = String.fromCharCode(byte);
    } else if (text === '/') {
      segments.push('');
      continue;
    }
    segments[segments.length - 1] += text;
  }
  return segments;
}

property(
  'an accepted target reaches the same segments and rule as an independent parser finds',
  6_000,
  fc.tuple(methods, targets),
  ([method, target]) => {
    const match = judge(method, target);
    accepted.note(match !== undefined);
    if (match === undefined) return;
    const segments = segmentsOf(target);
    same(match.path.slice(1).split('/'), segments, target);
    same(told(method, match), meaningOf(method, segments), `${method} ${target}`);
  },
);

property(
  'the fast path for plain targets agrees with the full parser',
  3_000,
  fc.tuple(methods, targets),
  ([method, target]) => {
    const parsed = parseTarget(target);
    if (typeof parsed === 'string' || parsed.readings !== null) return;
    const short = router.find(method, parsed.path, null);
    const long = router.find(method, parsed.path, readings(parsed.path) as Readings);
    if (typeof short === 'string' || typeof long === 'string')
      throw new Error(`a plain path is refused: ${target}`);
    same([short.route.path, short.path], [long.route.path, long.path], target);
  },
);

property(
  'escaping an unreserved character changes nothing, or the path is refused',
  5_000,
  fc.tuple(methods, targets, fc.infiniteStream(fc.integer({ min: 0, max: 3 }))),
  ([method, target, dice]) => {
    const end = target.search(/[?#]|$/);
    const escaped = target.slice(0, end).replace(/%[0-9a-f]{2}|[A-Za-z0-9._~-]/gi, (char) => {
      const roll = dice.next().value as number;
      const hex = char.charCodeAt(0).toString(16);
      return char.length > 1 || roll > 1 ? char : `%${roll === 0 ? hex : hex.toUpperCase()}`;
    });
    const one = judge(method, target);
    const other = judge(method, escaped + target.slice(end));
    if (other === undefined) return;
    same(one?.path, other?.path, `${method} ${target} and ${escaped}`);
    same(one?.route.path, other?.route.path, `${method} ${target} and ${escaped}`);
  },
);

property(
  'a router that matches before it decodes reaches the same rule',
  6_000,
  fc.tuple(methods, targets),
  ([method, target]) => {
    const match = judge(method, target);
    if (match === undefined) return;
    const path = target.split('?', 1)[0] ?? '';
    // The table's only fixed segment that needs an escape is `a b`, which is sent as `a%20b`.
    const sent = meaningOf(method, path.slice(1).split('/').map((part) => (part === 'a%20b' ? 'a b' : part)));
    const decoded = (text: string) => JSON.stringify(segmentsOf(text));
    same(decoded(sent), decoded(told(method, match)), `${method} ${target}`);
  },
); // prettier-ignore

const stripping = new Router(
  [
    { path: '/service/*', action: 'a', strip_prefix: '/service' },
    { path: '/service/:service_id/purge/*', action: 'b', strip_prefix: '/service' },
    { path: '/a b/:x', action: 'c', strip_prefix: '/a b' },
    { path: '/public', action: 'd', strip_prefix: '/public' },
    { path: '/public/x/*', action: 'd', strip_prefix: '/public/x' },
  ],
  FALLBACK,
);
const strippedOf = new Share();

property(
  'a stripped target is the rest of the judged segments, and never looks like a host',
  12_000,
  fc.tuple(
    methods,
    targets,
    fc.constantFrom('', '', '/service', '/%73ervice', '/public/x', '/a%20b', '/%61%20b'),
  ),
  ([method, tail, prefix]) => {
    const target = `${prefix}${tail}`;
    const parsed = parseTarget(target);
    if (typeof parsed === 'string') return;
    const match = stripping.find(method, parsed.path, parsed.readings);
    if (typeof match === 'string') return;
    const { strippedSegments: count } = match.route;
    strippedOf.note(count > 0);
    const sent = withoutSegments(target, count);
    if (count === 0) same(sent, target, target);
    const [path = '', ...query] = sent.split('?');
    same(query, target.split('?').slice(1), `${target}: the query stays`);
    const rest = segmentsOf(target).slice(count);
    same(segmentsOf(sent), rest.length === 0 ? [''] : rest, target);
    same(
      target.endsWith(sent) || sent.replace(/^\//, '') === target.slice(parsed.path.length),
      true,
      `${target}: byte for byte`,
    );
    if (count > 0 && /^\/(?:\/|;|%2f|%3b)/i.test(path)) throw new Error(`${target} became ${sent}`);
    if (typeof parseTarget(sent) === 'string')
      throw new Error(`${target} became ${sent}, which is refused itself`);
  },
);

type Reader = (path: string) => string;

const decode: Reader = (path) =>
  path.replace(/%([0-9a-f]{2})/gi, (_, hex: string) => String.fromCharCode(parseInt(hex, 16)));

/** Transformations that real upstreams apply to a path. */
const HABITS: Record<string, Reader> = {
  decode,
  separators: (path) => path.replace(/%2f/gi, '/'),
  backslashes: (path) => path.replaceAll('\\', '/'),
  parameters: (path) => path.replace(/;[^/]*/g, ''),
  lastParameters: (path) => path.replace(/;[^/]*$/, ''),
  semicolon: (path) => path.replace(/;.*$/, ''),
  end: (path) => path.replace(/[?#].*$/, ''),
  merge: (path) => path.replace(/\/+/g, '/'),
  trailing: (path) => (path.length > 1 ? path.replace(/\/$/, '') : path),
  allTrailing: (path) => path.replace(/(?!^)\/+$/, ''),
  dots: (path) => {
    const out: string[] = [];
    for (const segment of path.slice(1).split('/')) {
      if (segment === '..') out.pop();
      else if (segment !== '.') out.push(segment);
    }
    return `/${out.join('/')}`;
  },
};

property(
  'no lenient parser reaches another rule, service or endpoint than the strict one',
  30_000,
  fc.tuple(methods, targets, fc.shuffledSubarray(Object.keys(HABITS), { minLength: 1 })),
  ([method, target, habits]) => {
    const match = judge(method, target);
    if (match === undefined) return;
    const path = target.split('?', 1)[0] ?? '';
    const read = habits.reduce((text, habit) => (HABITS[habit] as Reader)(text), path);
    const about = `${method} ${target} by ${habits.join(', ')}`;
    // The strict parser keeps `%25` and non-ASCII bytes as sent; a decoding one does not.
    if (!habits.includes('decode')) same(meaningOf(method, segmentsOf(read)), told(method, match), about);
    else same(meaningOf(method, read.slice(1).split('/')), decode(told(method, match)), about);
  },
);

property(
  'a parser that ignores case reaches the same rule',
  3_000,
  fc.tuple(methods, targets, fc.infiniteStream(fc.integer({ min: 0, max: 7 }))),
  ([method, plain, dice]) => {
    const target = plain.replace(/[a-z]+(?![^/]*%)/g, (word) => {
      const roll = dice.next().value as number;
      if (roll > 1) return word;
      return roll === 0 ? word.toUpperCase() : word.charAt(0).toUpperCase() + word.slice(1);
    });
    const match = judge(method, target);
    // The upstream gets no request for a built-in endpoint, and every route's words are in lower case.
    if (match === undefined || BUILT_IN.some(({ path }) => path === match.route.path)) return;
    const segments = segmentsOf(target).map((segment) => segment.toLowerCase());
    same(meaningOf(method, segments), told(method, match).toLowerCase(), `${method} ${target}`);
  },
);

property(
  'a parser that treats the target as a URL reference reaches the same rule',
  4_000,
  fc.tuple(methods, targets),
  ([method, target]) => {
    const match = judge(method, target);
    if (match === undefined) return;
    const { pathname } = new URL(target, 'http://localhost');
    same(meaningOf(method, segmentsOf(pathname)), told(method, match), `${method} ${target} as a URL`);
  },
);

property(
  'refuses a dot segment in every spelling and position',
  4_000,
  fc.tuple(
    methods,
    fc.array(fc.constantFrom('service', 'SVC1', 'purge', 'public', 'files', 'x', '', 'a%20b'), {
      maxLength: 3,
    }),
    fc.array(fc.constantFrom('.', '%2e', '%2E'), { minLength: 1, maxLength: 2 }),
    fc.constantFrom('', '', ';', ';x', ';x=1', '%3b', '%3Bx'),
    fc.array(fc.constantFrom('service', 'purge_all', 'x', ''), { maxLength: 2 }),
    fc.infiniteStream(fc.constantFrom('/', '/', '/', '%2f', '%2F', '//')),
    fc.constantFrom('', '?x', '/'),
  ),
  ([method, before, dots, parameter, after, separators, end]) => {
    const segments = [...before, dots.join('') + parameter, ...after];
    const target = `/${segments.map((each, i) => (i === 0 ? each : `${separators.next().value}${each}`)).join('')}${end}`;
    same(judge(method, target)?.path, undefined, target);
  },
);

property(
  'any text is refused with a sentence, or split into two parts with the same bytes',
  6_000,
  fc.oneof(
    fc.string({ unit: 'binary' }),
    fc.string().map((text) => `/${text}`),
    targets,
  ),
  (target) => {
    const parsed = parseTarget(target);
    if (typeof parsed === 'string') {
      if (parsed === '') throw new Error('no reason');
      return;
    }
    const query = target.includes('?') ? `?${parsed.query}` : '';
    same(parsed.path + query, target, 'the parts are the target');
    if (!/^\/[!-~]*$/.test(target) || /[#\\]/.test(parsed.path))
      throw new Error(`a character went through: ${target}`);
    router.find('GET', parsed.path, parsed.readings);
  },
);

t.test('enough of the targets are accepted for the properties to mean something', async (t) => {
  t.ok(strippedOf.exceeds(0.3), `${Math.round(strippedOf.part * 100)} % are stripped`);
  t.ok(accepted.exceeds(0.3) && accepted.part < 0.9, `${Math.round(accepted.part * 100)} %`);
});

function same(found: unknown, wanted: unknown, about: string): void {
  if (JSON.stringify(found) !== JSON.stringify(wanted))
    throw new Error(`${about}: ${JSON.stringify(found)} is not ${JSON.stringify(wanted)}`);
}
