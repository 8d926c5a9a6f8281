import { METHODS } from '../domain/methods.js';
import { decodeAscii, parseTarget, segmentAt } from '../domain/path.js';
import { storedToken } from '../gate/what-if.js';
import { AUTHORIZATION } from '../http/authorization.js';
import type { RequestHead } from '../http/head.js';
import type { Match } from '../policy/route.js';
import type { TokenWithUse } from '../store/core/token-records.js';
import { OWN_ID, type Side } from './side.js';

export type Matches = readonly [Match | string, Match | string];

/** Requests that both gates decide alike, whichever of these routes they match. */
export interface RequestClass {
  readonly head: RequestHead;
  readonly matches: Matches;
  readonly pairs: Map<string, RoutePair>;
}

export interface RoutePair {
  readonly matches: Matches;
  /** The host of the configurations that the pair requires; null for every other host. */
  readonly host: string | null;
  readonly examples: Map<string, string>;
}

export function classKey(sides: readonly [Side, Side], [a, b]: Matches, method: string): string {
  const keyOf = (side: Side, match: Match | string) =>
    typeof match === 'string' ? 'refused' : side.signature(match.route, method);
  return `${keyOf(sides[0], a)}\n${keyOf(sides[1], b)}`;
}

export function classify(sides: readonly [Side, Side]): Map<string, RequestClass> {
  const classes = new Map<string, RequestClass>();
  for (const [host, shown] of hostsOf(sides)) {
    const routes = sides.flatMap(({ sites }) => sites.routesOf(host));
    for (const path of samplePaths(new Set(routes.map((route) => route.path)))) {
      const first = requestHead('GET', path, host);
      if (typeof first !== 'string')
        for (const method of METHODS) addTo(classes, sides, { ...first, method }, shown);
    }
  }
  return classes;
}

function addTo(
  classes: Map<string, RequestClass>,
  sides: readonly [Side, Side],
  head: RequestHead,
  host: string | null,
): void {
  const matches = [sides[0].match(head), sides[1].match(head)] as const;
  const key = classKey(sides, matches, head.method);
  const known = classes.get(key) ?? { head, matches, pairs: new Map<string, RoutePair>() };
  classes.set(key, known);
  const names = matches.map((match) => typeof match !== 'string' && [match.route.name, match.route.position]);
  const pairKey = JSON.stringify([names, host]);
  const pair = known.pairs.get(pairKey) ?? { matches, host, examples: new Map<string, string>() };
  known.pairs.set(pairKey, pair);
  if (!pair.examples.has(head.method)) pair.examples.set(head.method, head.path);
}

/** Returns sample hosts for all, each with the host of the configurations that it stands for. */
export function hostsOf(sides: readonly [Side, Side]): Map<string, string | null> {
  const hosts = new Map<string, string | null>();
  const named = new Set(sides.flatMap(({ sites }) => sites.hosts));
  for (const host of [null, ...named]) {
    let sample = host === null ? 'any.invalid' : host.replace(/^\*/, 'any');
    while (named.has(sample) && sample !== host) sample = `x${sample}`;
    hosts.set(sample, host);
  }
  return hosts;
}

const CLIENT = {
  address: '127.0.0.1', secure: true, proxied: false, behindTrustedProxy: false, port: '', prefix: '', forwardedFor: '127.0.0.1',
}; // prettier-ignore

/** Returns a request without a credential, or in a sentence why its path is always refused. */
export function requestHead(method: string, target: string, host: string): RequestHead | string {
  const parsed = parseTarget(target);
  if (typeof parsed === 'string') return parsed;
  return {
    method, target, ...parsed, fields: [], client: { ...CLIENT, host }, key: undefined, scheme: undefined, jwt: undefined, jwtPlace: AUTHORIZATION,
    otp: undefined, session: undefined, contentType: undefined, contentLength: undefined, hasBody: false, connection: undefined,
    webSocket: false, expectsContinue: false, serviceWorker: false, origin: undefined, fetchSite: undefined,
    userAgent: undefined, trace: undefined,
  };
} // prettier-ignore

/** The segments of a path pattern, as they are matched; null for a parameter. */
interface Pattern {
  readonly segments: readonly (string | null)[];
  /** Whether it ends in `*`, which stands for one segment or more. */
  readonly isOpen: boolean;
}

/**
 * Returns one path, as it is sent, for each length that each two patterns match together. These
 * suffice: a pattern that is more specific than both and matches such a path matches every path of
 * that length that both match, because only their own fixed segments have known names.
 */
export function samplePaths(paths: Iterable<string>): Set<string> {
  const patterns = [...paths].map(patternOf);
  const longest = Math.max(0, ...patterns.map(({ segments }) => segments.length)) + 2;
  const fresh = freshName(patterns);
  const samples = new Set(['/']);
  for (const [i, a] of patterns.entries())
    for (const b of patterns.slice(i))
      for (const length of lengthsOf(a, b, longest)) {
        const sample = jointPath(a, b, length, fresh);
        if (sample !== undefined) samples.add(sample);
      }
  return samples;
}

function patternOf(path: string): Pattern {
  const parts = path.slice(1).split('/');
  const isOpen = parts.at(-1) === '*';
  const named = isOpen ? parts.slice(0, -1) : parts;
  return { isOpen, segments: named.map((part) => (part.startsWith(':') ? null : decodeAscii(part))) };
}

/** Returns the lengths of the paths that two patterns may match; all longer ones are alike. */
function lengthsOf(a: Pattern, b: Pattern, longest: number): number[] {
  const [short, long] = a.segments.length < b.segments.length ? [a, b] : [b, a];
  const { length } = long.segments;
  if (!short.isOpen) return short.segments.length === length && !long.isOpen ? [length] : [];
  if (!long.isOpen) return length > short.segments.length ? [length] : [];
  return Array.from({ length: longest - length }, (_, i) => length + 1 + i);
}

function jointPath(a: Pattern, b: Pattern, length: number, fresh: string): string | undefined {
  let path = '';
  for (let i = 0; i < length; i++) {
    const [x, y] = [a.segments[i], b.segments[i]];
    const fixed = x ?? y ?? undefined;
    if (fixed !== (y ?? x ?? undefined)) return undefined;
    // A parameter does not match an empty segment.
    if (fixed === '' && (x === null || y === null)) return undefined;
    path += `/${fixed === undefined ? `${fresh}${i + 1}` : written(fixed)}`;
  }
  return path;
}

/** Escapes only what needs it: a request with any other escape is ambiguous. */
function written(segment: string): string {
  return segment.replaceAll(/[^\w.~!$&'()*+,;=:@%-]/g, encodeURIComponent);
}

function freshName(patterns: readonly Pattern[]): string {
  const fixed = patterns.flatMap(({ segments }) => segments.filter((segment) => segment !== null));
  let stem = 'any';
  while (fixed.some((segment) => segment.startsWith(stem))) stem += '-';
  return stem;
}

export interface Variant {
  /** In words; empty for a request for the sender's own record, or for none. */
  readonly condition: string;
  readonly head: RequestHead;
  readonly tokenOf: (id: string) => TokenWithUse;
  readonly customerId: string;
}

/**
 * Returns a request for each owner that the record may have, and for each of some services that it
 * may name in a header field or the query (by default, one for each place).
 */
export function variantsOf(
  head: RequestHead,
  matches: Matches,
  { ownId = OWN_ID, services }: { ownId?: string; services?: readonly string[] } = {},
): Variant[] {
  const found = matches.filter((match) => typeof match !== 'string');
  const places = found.flatMap(({ route: { service } }) =>
    service === null || service.from === 'path' ? [] : [`${service.from}:${service.name}`],
  );
  let heads = [head];
  for (const [i, place] of [...new Set(places)].entries())
    heads = heads.flatMap((each) => (services ?? [`service-${i}`]).map((name) => withService(each, place, name)));
  return heads.flatMap((each) => ownersOf(each, found, ownId));
} // prettier-ignore

function withService(head: RequestHead, place: string, value: string): RequestHead {
  const name = place.slice(place.indexOf(':') + 1);
  if (place.startsWith('header:')) return { ...head, fields: [...head.fields, name, value] };
  const query = `${head.query === '' ? '' : `${head.query}&`}${name}=${value}`;
  return { ...head, query, target: `${head.path}?${query}` };
}

function ownersOf(head: RequestHead, found: readonly Match[], ownId: string): Variant[] {
  const kinds = found.map(({ route }) => route.endpoint?.id);
  const customerId = (kinds.includes('customer') && segmentAt(found[0]?.path ?? '', 1)) || 'customer';
  const own = { condition: '', head, tokenOf: ownedBy(ownId), customerId };
  if (kinds.includes('token'))
    return [own, { ...own, condition: "another user's token", tokenOf: ownedBy('another') }];
  if (kinds.includes('customer'))
    return [own, { ...own, condition: 'another customer', customerId: 'customer' }];
  return [own];
}

function ownedBy(userId: string): Variant['tokenOf'] {
  return (id) => ({ token: storedToken(id, userId), use: null });
}
