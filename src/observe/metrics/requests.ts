import { counter, Counts, gauge, gaugeOnDemand, Histogram, OTHER, type Series } from './series.js';

/**
 * Maximum number of series in one process: a configuration may have many routes, and reloads add new ones.
 */
export const MAX_REQUEST_SERIES = 5_000;

const requests = new Counts(
  'latchkey_requests_total',
  'Requests by route, outcome (forwarded, answered, or the reason for the refusal) and status class.',
);
const duration = new Histogram(
  'latchkey_request_duration_seconds',
  'Time from the complete request head to the end of the response.',
  'outcome',
);
export const decisionDuration = new Histogram(
  'latchkey_decision_duration_seconds',
  'Time from the complete request head to the decision.',
).of('');
export const firstByteDuration = new Histogram(
  'latchkey_upstream_first_byte_seconds',
  'Time from sending a request to an upstream to the first byte of its response.',
  'upstream',
);

/** Few kinds keep the number of metrics small. */
export type StoreOperation = 'find_token' | 'find_session' | 'read' | 'write' | 'record_uses';

export const storeOperationDuration = new Histogram(
  'latchkey_store_operation_duration_seconds',
  'Duration of store operations below the cache, successful or not.',
  'operation',
);
export const storeErrors = counter('latchkey_store_errors_total', 'Store operations that failed.', [
  'operation',
]);

let inFlight = 0;
gaugeOnDemand(
  'latchkey_requests_in_flight',
  'Requests whose head is complete and whose response is not.',
  () => inFlight,
);

export const unreadableRequests = counter(
  'latchkey_unreadable_requests_total',
  'Input that was not a valid HTTP request: malformed, too long, or not complete in time.',
  ['reason'],
);
export const openWebSockets = gauge('latchkey_websockets', 'Open WebSockets.');

const byRoute = new Map<string, Map<string, Series[]>>();
const CLASSES = ['none', '1xx', '2xx', '3xx', '4xx', '5xx'] as const;

/** @param route path of its route or name of its built-in endpoint; null when none matched */
export function countRequest(
  route: string | null,
  outcome: string,
  status: number | null,
  seconds: number,
): void {
  inFlight -= 1;
  seriesOf(route ?? 'none', outcome, status === null ? 0 : Math.min(5, Math.floor(status / 100))).value += 1;
  duration.of(outcome).observe(seconds);
}

function seriesOf(route: string, outcome: string, statusClass: number): Series {
  const known = byRoute.get(route)?.get(outcome)?.[statusClass];
  if (known !== undefined) return known;
  if (requests.size >= MAX_REQUEST_SERIES && route !== OTHER) return seriesOf(OTHER, outcome, statusClass);
  const ofRoute = byRoute.get(route) ?? new Map<string, Series[]>();
  byRoute.set(route, ofRoute);
  const ofOutcome = ofRoute.get(outcome) ?? [];
  ofRoute.set(outcome, ofOutcome);
  const series = requests.add({ route, outcome, status_class: CLASSES[statusClass] ?? 'none' });
  ofOutcome[statusClass] = series;
  return series;
}

/** Counts a request that begins. {@link countRequest} must be called when it ends. */
export function countStarted(): void {
  inFlight += 1;
}

export interface UpstreamLoad {
  readonly name: string;
  readonly active: number;
  readonly waiting: number;
}

let loads: () => Iterable<UpstreamLoad> = () => [];

export function readUpstreamLoads(from: () => Iterable<UpstreamLoad>): void {
  loads = from;
}

gaugeOnDemand(
  'latchkey_upstream_active_requests',
  'Requests and WebSockets that hold an upstream connection.',
  () => Array.from(loads(), ({ name, active }) => [name, active] as const),
  { label: 'upstream' },
);

gaugeOnDemand(
  'latchkey_upstream_waiting_requests',
  'Requests waiting for a free upstream connection (upstreams.*.max_connections).',
  () => Array.from(loads(), ({ name, waiting }) => [name, waiting] as const),
  { label: 'upstream' },
);

export type Change = 'would_refuse' | 'would_allow';

const MAX_SHADOW_ROUTES = 1_000;

const shadowDecisions = new Counts(
  'latchkey_shadow_decisions_total',
  'Requests that the shadow policy (policy_shadow) would decide differently, by the route of the policy in force.',
);

const shadowSeries = new Map<string, Record<Change, Series>>();

/** @param route as in `latchkey_requests_total` */
export function countShadowDecision(route: string, change: Change): void {
  let series = shadowSeries.get(route);
  if (series === undefined) {
    if (shadowSeries.size >= MAX_SHADOW_ROUTES && route !== OTHER) {
      countShadowDecision(OTHER, change);
      return;
    }
    series = {
      would_refuse: shadowDecisions.add({ route, change: 'would_refuse' }),
      would_allow: shadowDecisions.add({ route, change: 'would_allow' }),
    };
    shadowSeries.set(route, series);
  }
  series[change].value += 1;
}
