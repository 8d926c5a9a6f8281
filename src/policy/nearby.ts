import type { Route } from './route.js';

export interface NearMiss {
  readonly route: Route;
  readonly why: string;
}

const MAX = 4;

/** Returns routes whose path matches too, and those that one segment prevents. */
export function nearMisses(
  routes: readonly Route[],
  matched: Route,
  method: string,
  path: string,
): NearMiss[] {
  const segments = path.slice(1).split('/');
  const fitting: NearMiss[] = [];
  const close: NearMiss[] = [];
  for (const route of routes) {
    // Routes that only keep built-in endpoints from being forwarded mean nothing to an operator.
    if (route === matched || route.position === null) continue;
    const difference = compare(route, segments);
    if (difference === 'none') fitting.push({ route, why: whyNotMatched(route, method) });
    else if (difference !== 'far') close.push({ route, why: difference });
  }
  return [...fitting, ...close].slice(0, MAX);
}

function whyNotMatched(route: Route, method: string): string {
  return route.methods === null || route.methods.includes(method)
    ? 'its path is less specific'
    : `it accepts only ${route.methods.join(', ')}`;
}

function compare(route: Route, segments: readonly string[]): string {
  const pattern = route.path.slice(1).split('/');
  if (route.wildcard) pattern.pop();
  if (pattern.length === 0) return 'none';
  const missing = pattern.length + (route.wildcard ? 1 : 0) - segments.length;
  const differing = pattern.filter((part, i) => {
    const segment = segments[i];
    return segment !== undefined && !part.startsWith(':') && part !== segment;
  });
  const fixed = pattern.filter((part) => !part.startsWith(':'));
  if (differing.length === 0 && missing <= 0 && (route.wildcard || missing === 0)) return 'none';
  if (differing.length === 0 && Math.abs(missing) === 1 && fixed.length > 0) {
    return missing > 0 ? 'its path has one more segment' : 'its path has one segment fewer';
  }
  const sameLength = route.wildcard ? missing <= 0 : missing === 0;
  if (differing.length === 1 && sameLength && fixed.length > 1)
    return `it has "${differing[0]}" where the path differs`;
  return 'far';
}
