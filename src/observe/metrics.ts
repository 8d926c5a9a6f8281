import { AggregatorRegistry, collectDefaultMetrics, Gauge, register } from 'prom-client';
import { counter, gauge } from './metrics/series.js';

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
