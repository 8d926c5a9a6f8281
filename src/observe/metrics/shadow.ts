import { Counts, OTHER, type Series } from './series.js';

export type Change = 'would_refuse' | 'would_allow';

/**
 * Maximum number of routes. The configuration bounds them, but it may have many, and reloads add new ones.
 */
const MAX_ROUTES = 1_000;

const decisions = new Counts(
  'latchkey_shadow_decisions_total',
  'Requests that the shadow policy (policy_shadow) would decide differently, by the route of the policy in force.',
);

const byRoute = new Map<string, Record<Change, Series>>();

/**
 * Counts a request that the shadow policy would decide differently.
 * @param route as in `latchkey_requests_total`
 */
export function countShadowDecision(route: string, change: Change): void {
  let series = byRoute.get(route);
  if (series === undefined) {
    if (byRoute.size >= MAX_ROUTES && route !== OTHER) {
      countShadowDecision(OTHER, change);
      return;
    }
    series = {
      would_refuse: decisions.add({ route, change: 'would_refuse' }),
      would_allow: decisions.add({ route, change: 'would_allow' }),
    };
    byRoute.set(route, series);
  }
  series[change].value += 1;
}
