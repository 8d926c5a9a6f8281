import { AggregatorRegistry, collectDefaultMetrics, Gauge, register } from 'prom-client';
import { counter, Counts, gauge, gaugeOnDemand, Histogram } from './metrics/series.js';

export const metrics = {
  openConnections: gauge('latchkey_connections', 'Open client connections.'),
  refusedConnections: counter('latchkey_connections_refused_total', 'Client connections closed at once because limits.connections was reached.'),
  openStreams: gauge('latchkey_streams', 'Requests and WebSockets in progress that are rechecked while they last.'),
  auditFailures: counter('latchkey_audit_failures_total', 'Audit log entries that could not be written.'),
  evictions: counter('latchkey_evictions_total', 'Requests and WebSockets that gave way to others at a full resource, because their client had the most.', ['resource']),
  servingWorkers: gauge('latchkey_workers', 'Processes serving requests.', 'first'),
  reloadSuccessful: gauge('latchkey_config_last_reload_successful', 'Whether the latest configuration and directory are in use (1) or were refused (0).', 'first'),
  reloadTime: gauge('latchkey_config_last_reload_success_timestamp_seconds', 'Time when the running configuration was loaded, in Unix seconds.', 'first'),
  loginChecks: counter('latchkey_logins_total', 'Password checks at POST /login, POST /tokens and POST /sudo, by outcome.', ['outcome']),
  droppedSpans: counter('latchkey_spans_dropped_total', 'Spans dropped because the collector rejected them or the queue was full.'),
  upstreamRetries: counter('latchkey_upstream_retries_total', 'Requests resent to the same or another address after a failed attempt.', ['upstream']),
  failedHandshakes: counter('latchkey_tls_handshake_failures_total', 'Client connections that ended before their TLS handshake was complete.'),
  jwtKeyFetches: counter('latchkey_jwt_key_fetches_total', "Fetches of a JWT issuer's public keys, by outcome.", ['issuer', 'outcome']),
  providerLogins: counter('latchkey_oidc_logins_total', 'Logins at OpenID Connect providers, by outcome.', ['provider', 'outcome']),
  providerLogouts: counter('latchkey_oidc_logouts_total', 'Logout tokens of OpenID Connect providers, by outcome.', ['provider', 'outcome']),
  providerDiscoveries: counter('latchkey_oidc_discoveries_total', "Fetches of an OpenID Connect provider's configuration, by outcome.", ['provider', 'outcome']),
  fleetSidecars: gauge('latchkey_fleet_sidecars', 'Sidecars on the same store that are up, according to their heartbeats.', 'max'),
  droppedLogLines: counter('latchkey_log_dropped_total', 'Log lines dropped because standard output was not read in time or could not be written to; the server does not wait for its log.'),
  buildInfo: gauge('latchkey_build_info', 'Always 1; the labels hold the versions of Latchkey and Node.js.', 'first', ['version', 'node']),
  jwtVerifications: counter('latchkey_jwt_verifications_total', 'Verifications of JWTs from other issuers, by outcome; cached results are not counted.', ['issuer', 'outcome']),
  fleetConfigs: gauge('latchkey_fleet_configurations', 'Distinct configurations of the sidecars on the same store; 1 if all run the same.', 'max'),
}; // prettier-ignore

metrics.reloadSuccessful.set(1);
metrics.reloadTime.setToCurrentTime();

export function setReloaded(successful: boolean): void {
  metrics.reloadSuccessful.set(successful ? 1 : 0);
  if (successful) metrics.reloadTime.setToCurrentTime();
}

export function startProcessMetrics(version: string): void {
  metrics.buildInfo.set({ version, node: process.version }, 1);
  collectDefaultMetrics({ prefix: 'latchkey_' });
  // Gauges named like counters; each is the sum of the gauge with the label `type`.
  for (const kind of ['handles', 'requests', 'resources'])
    register.removeSingleMetric(`latchkey_nodejs_active_${kind}_total`);
}

export async function renderMetrics(): Promise<{ type: string; text: string }> {
  return { type: register.contentType, text: await register.metrics() };
}

export async function readMetrics(): Promise<unknown[]> {
  return register.getMetricsAsJSON();
}

/** Renders the summed metrics of several processes; where a sum is meaningless, the first one's value. */
export async function renderSum(processes: readonly unknown[][]): Promise<{ type: string; text: string }> {
  const summed = AggregatorRegistry.aggregate(processes as object[]);
  return { type: summed.contentType, text: await summed.metrics() };
}

export function sumOfCounts(processes: readonly unknown[][]): unknown[] {
  const counts = (processes as readonly { readonly type: string }[][]).map((metrics) =>
    metrics.filter(({ type }) => type === 'counter' || type === 'histogram'),
  );
  const summed = AggregatorRegistry.aggregate(counts) as unknown as { getMetricsAsArray(): object[] };
  return summed.getMetricsAsArray().map((metric) => ({ ...metric }));
}

export interface AddressState {
  readonly upstream: string;
  readonly address: string;
  readonly usable: boolean;
}

let addressStates: () => readonly AddressState[] = () => [];

/** The source of `latchkey_upstream_healthy`, read on each scrape so that removed addresses disappear. */
export function watchAddresses(states: () => readonly AddressState[]): void {
  addressStates = states;
}

const upstreamHealthy = new Gauge({
  name: 'latchkey_upstream_healthy',
  help: 'Whether an upstream address is in use (1) or taken out of use after failures (0); 0 if any process has taken it out.',
  labelNames: ['upstream', 'address'] as const,
  aggregator: 'min',
  collect: () => {
    upstreamHealthy.reset();
    for (const { upstream, address, usable } of addressStates())
      upstreamHealthy.set({ upstream, address }, usable ? 1 : 0);
  },
});

let certificateExpiry: Gauge | undefined;

/** In seconds since 1970. Without TLS this metric does not exist. */
export function setCertificateExpiry(seconds: number): void {
  certificateExpiry ??= gauge(
    'latchkey_certificate_expiry_timestamp_seconds',
    'Earliest expiry in the certificate chain of the public port, in Unix seconds.',
    'first',
  );
  certificateExpiry.set(seconds);
}

export const storeMetrics = {
  lastSeenFailures: counter('latchkey_last_seen_write_failures_total', 'Failed writes of last-seen data, which are retried.'),
  staleTokensServed: counter('latchkey_stale_tokens_served_total', 'Requests allowed from the cache while the store was unavailable (on_store_failure).'),
  bridgedTokens: counter('latchkey_bridged_tokens_served_total', 'Requests allowed with a known token while a networked store elected another master.'),
  storeLinksUp: gauge('latchkey_store_links_up', 'Processes that receive change notifications from a networked store. Without them the cache is disabled.'),
  linkFailures: counter('latchkey_invalidation_link_failures_total', 'Failed attempts to receive change notifications from a networked store.'),
  historyChanges: counter('latchkey_store_history_changes_total', 'Changes of store history that a process noticed, such as a failover or a restart of Redis.'),
  reapplied: counter('latchkey_store_revocations_reapplied_total', 'Revocations that a networked store had lost and that were reapplied.'),
  tokensLost: counter('latchkey_store_tokens_lost_total', 'Tokens created by this process that a networked store has lost.'),
  activeTokens: gauge('latchkey_tokens_active', 'Unexpired tokens and legacy keys in the store, counted once a minute.', 'first'),
  tokensInOverlap: gauge('latchkey_tokens_in_overlap', 'Rotated tokens that are still accepted alongside their replacements, counted every 5 seconds, in large stores less often.', 'first'),
  expiringTokens: gauge('latchkey_tokens_expiring', 'Tokens in the store that expire within this time, counted every 5 seconds, in large stores less often.', 'first', ['within']),
  pendingDeletions: gauge('latchkey_users_pending_deletion', 'Users that are no longer in the directory, locked until their last active token ends, counted once a minute.', 'first'),
  unsharedRates: counter('latchkey_token_rate_lease_failures_total', 'Failed attempts to share the request rate of a token; the process then limits it alone for a second.'),
  unsavedRevocations: counter('latchkey_revocation_save_failures_total', 'Failed attempts to save revocations in the folder store.revocations; a restart forgets them.'),
  clockSkew: gauge('latchkey_clock_skew_seconds', 'Difference between the clocks of this machine and of the networked store; 0 for the embedded store.', 'max'),
}; // prettier-ignore

const cacheLookups = new Counts(
  'latchkey_cache_lookups_total',
  'Token look-ups in the cache in front of a networked store.',
);
const cacheHits = cacheLookups.add({ result: 'hit' });
const cacheMisses = cacheLookups.add({ result: 'miss' });

let aliveAt: number | null = null;
export function linkAge(): number | null {
  return aliveAt === null ? null : Math.round(performance.now() - aliveAt);
}
gaugeOnDemand(
  'latchkey_invalidation_link_age_seconds',
  'Time since the change notification link of a networked store was last known to work; 0 for the embedded store.',
  () => (linkAge() ?? 0) / 1000,
  { aggregator: 'max' },
);

export const invalidationLag = new Histogram(
  'latchkey_invalidation_lag_seconds',
  'Time from sending a token change to a networked store until the same process receives its notification.',
).of('');

export function countCacheLookup(result: 'hit' | 'miss'): void {
  (result === 'hit' ? cacheHits : cacheMisses).value += 1;
}

/** Records that the invalidation link works now, or that this process begins to wait for it. */
export function noteLinkAlive(): void {
  aliveAt = performance.now();
}

/** Counts a change of the store's history: revocations applied again, and tokens lost. */
export function countHistoryChange(revocations: number, tokens: number): void {
  storeMetrics.historyChanges.inc();
  storeMetrics.reapplied.inc(revocations);
  storeMetrics.tokensLost.inc(tokens);
}

export const webhookMetrics = {
  webhookDeliveries: counter('latchkey_webhook_deliveries_total', 'Webhook delivery attempts by this process, by outcome.', ['endpoint', 'outcome']),
  webhookDrops: counter('latchkey_webhook_dropped_total', 'Webhooks dropped because the queue of the endpoint was full, counted by the sending process.', ['endpoint', 'queue']),
  webhookSender: gauge('latchkey_webhook_sender', 'Whether this process is the one in the fleet that sends webhooks.', 'max'),
  queued: gauge('latchkey_webhook_queued', 'Webhooks in the store waiting for delivery.', 'max', ['endpoint']),
  dead: gauge('latchkey_webhook_dead_letters', 'Dead letters: webhooks in the store that were given up.', 'max', ['endpoint']),
  disabled: gauge('latchkey_webhook_endpoint_disabled', 'Whether an endpoint is disabled because it responded with 410.', 'max', ['endpoint']),
  oldest: gauge('latchkey_webhook_oldest_seconds', 'Age of the oldest webhook waiting for delivery; 0 if there is none.', 'max', ['endpoint']),
}; // prettier-ignore
