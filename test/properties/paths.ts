import * as fc from 'fast-check';
import type { Arbitrary } from 'fast-check';
import { ROUTES } from '../../src/config/schema/policy.js';
import { segmentAt } from '../../src/domain/path.js';
import { builtInRoutes } from '../../src/endpoints/endpoints.js';
import type { Match, RouteDefinition } from '../../src/policy/route.js';

/** The default routes, and one of each kind that they lack. */
export const TABLE: readonly RouteDefinition[] = [
  ...ROUTES,
  { path: '/public/*', auth: 'none' },
  { path: '/secret/*', auth: 'deny' },
  { path: '/a b/:x', action: 'space' },
  { path: '/files/*', action: 'file:any', upstream: 'files' },
  { path: '/owner/:x/:service_id', action: 'owner', service: 'service_id' },
  { path: '/read/:x', methods: ['GET'], auth: 'none' },
  { path: '/read/:x', action: 'change' },
  { path: '/read/*', methods: ['HEAD', 'POST'], action: 'below' },
  { path: '/head/:x', methods: ['GET', 'PUT'], action: 'both' },
  { path: '/head/:y', methods: ['HEAD'], action: 'alone' },
  { path: '/reader', methods: ['GET'], auth: 'deny' },
];
export const BUILT_IN: readonly RouteDefinition[] = builtInRoutes({
  tokenEndpoints: 'session_or_token',
  assertion: true,
  oidc: true,
  account: true,
  readyPath: null,
  resourcePath: '/mcp',
  page: '/_latchkey/',
});
export const FALLBACK = { action: 'api', upstream: 'api' } as const;

/**
 * Interprets a path by a plain reading of the routes' documentation; written independently of the
 * router, and slower.
 */
export function meaningOf(method: string, segments: readonly string[]): string {
  const best = bestOf(BUILT_IN, method, segments) ??
    bestOf(TABLE, method, segments) ?? { ...FALLBACK, path: '/' };
  const read = ['GET', 'HEAD', 'OPTIONS'].includes(method);
  const { action = null, service = null, refuse_if_active_tokens: guarded = null } = best;
  const parameter = (name: string) => segments[best.path.split('/').indexOf(`:${name}`) - 1];
  const verb = action === null || action.includes(':') ? '' : read ? ':read' : ':write';
  return JSON.stringify([
    `${action}${verb}`,
    best.auth ?? 'required',
    best.upstream ?? null,
    best.endpoint?.name ?? null,
    // A route without parameters in its path responds the same however the path is written.
    best.endpoint === undefined || !best.path.includes(':') ? null : segments.join('/'),
    service === null ? null : parameter(service),
    guarded === null ? null : parameter(guarded),
  ]);
}

/**
 * Returns the most specific route: at the first segment where two differ, a fixed one wins, then a
 * parameter, then `*`.
 */
function bestOf(
  routes: readonly RouteDefinition[],
  method: string,
  segments: readonly string[],
): RouteDefinition | undefined {
  const taken = (route: RouteDefinition) =>
    method === 'HEAD' &&
    !routes.some((other) => shape(other) === shape(route) && other.methods?.includes('HEAD'))
      ? 'GET'
      : method;
  const fitting = routes.filter((route) => fits(route, taken(route), segments));
  const rank = (route: RouteDefinition) =>
    route.path
      .slice(1)
      .split('/')
      .map((part) => (part === '*' ? 'c' : part.startsWith(':') ? 'b' : 'a'))
      .join('') + (route.methods === undefined ? 'z' : 'y');
  return fitting.toSorted((a, b) => (rank(a) < rank(b) ? -1 : rank(a) > rank(b) ? 1 : 0))[0];
}

/** Returns the path with all parameter names removed. */
function shape({ path }: RouteDefinition): string {
  return path.replace(/:[^/]*/g, ':');
}

function fits(route: RouteDefinition, method: string, segments: readonly string[]): boolean {
  if (route.methods !== undefined && !route.methods.includes(method)) return false;
  const parts = route.path.slice(1).split('/');
  const wildcard = parts.at(-1) === '*';
  if (wildcard ? segments.length < parts.length : segments.length !== parts.length) return false;
  return parts.every((part, i) => {
    if (part === '*' && i === parts.length - 1) return true;
    return part.startsWith(':') ? segments[i] !== '' : part === segments[i];
  });
}

/** Generates the spellings of text in a path, with and without escapes. */
function spelled(text: string): Arbitrary<string> {
  const each = text.split('').map((char) => {
    const hex = char.charCodeAt(0).toString(16).padStart(2, '0');
    return fc.oneof(
      { weight: 14, arbitrary: fc.constant(char) },
      { weight: 1, arbitrary: fc.constantFrom(`%${hex}`, `%${hex.toUpperCase()}`) },
    );
  });
  return fc.tuple(...each).map((parts) => parts.join(''));
}

const WORDS = [
  ...new Set([...BUILT_IN, ...TABLE].flatMap(({ path }) => path.split('/'))),
  ..."SVC1 SVC2 self x x.y ..x x.. ~ - a+b a,b a=b a@b a'b http:".split(' '),
].filter((word) => word !== '' && word !== '*' && !word.startsWith(':') && !word.includes(' '));
const ODD = [
  '%C3%A9',
  '%c3%a9',
  '%25',
  '%2520',
  '%20',
  '%21',
  '%3a',
  '%3F',
  '%23',
  '%E6%97%A5%E6%9C%AC',
  'cafe%CC%81',
  '',
  '*',
  ':x',
];
const HOSTILE = [
  '.',
  '..',
  '%2e',
  '%2E%2e',
  '.%2e',
  '%5c',
  '\\',
  '%00',
  '%0a',
  '%7f',
  '%',
  '%4',
  '%zz',
  '#',
  ' ',
  '	',
  'é',
  '\0',
  'Ā',
  '..;',
  '.;x',
  '%2e%2e;x=1',
  '%80',
  '%fF',
  '%c0%ae',
  '%u002e',
];

const segment = fc.oneof(
  { weight: 10, arbitrary: fc.constantFrom(...WORDS).chain(spelled) },
  { weight: 3, arbitrary: fc.constantFrom(...ODD) },
  { weight: 1, arbitrary: fc.constantFrom(...HOSTILE) },
);
const parameters = fc.oneof(
  { weight: 12, arbitrary: fc.constant('') },
  { weight: 1, arbitrary: fc.constantFrom(';', ';x', ';x=1', '%3b', '%3Bx', ';x;y', ';%2fx') },
);
const separator = fc.oneof(
  { weight: 16, arbitrary: fc.constant('/') },
  { weight: 1, arbitrary: fc.constantFrom('//', '%2f', '%2F', '/%2f', '///') },
);
const tail = fc.constantFrom(
  '',
  '',
  '',
  '',
  '/',
  '//',
  '%2f',
  '?',
  '?x=1',
  '?a=../..&b=%2e%2e//',
  '?x=%zz;\\',
  '?#',
  '/?',
);

const PATTERNS = [...BUILT_IN, ...TABLE]
  .map(({ path }) => path.slice(1).split('/'))
  .filter((parts) => parts[0] !== '*');

/** A path that matches a route, with a few features that parsers may disagree on. */
const fitting = fc
  .constantFrom(...PATTERNS)
  .chain((pattern) =>
    fc.tuple(
      ...pattern.map((part) =>
        fc.tuple(
          separator,
          part === '*' || part.startsWith(':') ? fc.constantFrom('SVC1', 'SVC2', 'x', 'self') : spelled(part),
          fc.oneof(
            { weight: 2, arbitrary: fc.constant('') },
            { weight: 1, arbitrary: parameters },
            { weight: 1, arbitrary: fc.constantFrom(';x', ';') },
          ),
        ),
      ),
    ),
  );

/**
 * Targets built from parts of routes, with separators and features that parsers may disagree on.
 */
export const targets: Arbitrary<string> = fc
  .tuple(fc.oneof(fc.array(fc.tuple(separator, segment, parameters), { maxLength: 5 }), fitting), tail)
  .map(([parts, end]) => (parts.length === 0 ? '/' : '') + parts.map((part) => part.join('')).join('') + end);

export const methods: Arbitrary<string> = fc.constantFrom('GET', 'HEAD', 'POST', 'PUT', 'DELETE', 'PURGE');

/** Describes a match in the form of {@link meaningOf}. */
export function told(method: string, { route, path }: Match): string {
  const read = ['GET', 'HEAD', 'OPTIONS'].includes(method);
  const at = (index: number | null) => (index === null ? null : segmentAt(path, index));
  return JSON.stringify([
    `${read ? route.readAction : route.writeAction}`,
    route.auth,
    route.upstream,
    route.endpoint?.name ?? null,
    route.endpoint === null || !route.path.includes(':') ? null : path.slice(1),
    route.service?.from === 'path' ? at(route.service.segment) : null,
    at(route.refuseIfActiveTokens),
  ]);
}
