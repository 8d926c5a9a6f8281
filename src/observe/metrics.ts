import { AggregatorRegistry, collectDefaultMetrics, Counter, Gauge, register } from 'prom-client';

export const openConnections = new Gauge({
  name: 'latchkey_connections',
  help: 'Open client connections.',
});

export const refusedConnections = new Counter({
  name: 'latchkey_connections_refused_total',
  help: 'Client connections closed at once because limits.connections was reached.',
});

export const openStreams = new Gauge({
  name: 'latchkey_streams',
  help: 'Requests and WebSockets in progress that are rechecked while they last.',
});

export const droppedLogLines = new Counter({
  name: 'latchkey_log_dropped_total',
  help: 'Log lines dropped because standard output was not read in time or could not be written to; the server does not wait for its log.',
});

export const auditFailures = new Counter({
  name: 'latchkey_audit_failures_total',
  help: 'Audit log entries that could not be written.',
});

export const evictions = new Counter({
  name: 'latchkey_evictions_total',
  help: 'Requests and WebSockets that gave way to others at a full resource, because their client had the most.',
  labelNames: ['resource'] as const,
});

export const servingWorkers = new Gauge({
  name: 'latchkey_workers',
  help: 'Processes serving requests.',
  aggregator: 'first',
});

const reloadSuccessful = new Gauge({
  name: 'latchkey_config_last_reload_successful',
  help: 'Whether the latest configuration and directory are in use (1) or were refused (0).',
  aggregator: 'first',
});
reloadSuccessful.set(1);

const reloadTime = new Gauge({
  name: 'latchkey_config_last_reload_success_timestamp_seconds',
  help: 'Time when the running configuration was loaded, in Unix seconds.',
  aggregator: 'first',
});
reloadTime.setToCurrentTime();

const buildInfo = new Gauge({
  name: 'latchkey_build_info',
  help: 'Always 1; the labels hold the versions of Latchkey and Node.js.',
  labelNames: ['version', 'node'] as const,
  aggregator: 'first',
});

export const loginChecks = new Counter({
  name: 'latchkey_logins_total',
  help: 'Password checks at POST /login, POST /tokens and POST /sudo, by outcome.',
  labelNames: ['outcome'] as const,
});

export const droppedSpans = new Counter({
  name: 'latchkey_spans_dropped_total',
  help: 'Spans dropped because the collector rejected them or the queue was full.',
});

export function setReloaded(successful: boolean): void {
  reloadSuccessful.set(successful ? 1 : 0);
  if (successful) reloadTime.setToCurrentTime();
}

export function startProcessMetrics(version: string): void {
  buildInfo.set({ version, node: process.version }, 1);
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

export const upstreamRetries = new Counter({
  name: 'latchkey_upstream_retries_total',
  help: 'Requests resent to the same or another address after a failed attempt.',
  labelNames: ['upstream'] as const,
});

export const failedHandshakes = new Counter({
  name: 'latchkey_tls_handshake_failures_total',
  help: 'Client connections that ended before their TLS handshake was complete.',
});

let certificateExpiry: Gauge | undefined;

/** In seconds since 1970. Without TLS this metric does not exist. */
export function setCertificateExpiry(seconds: number): void {
  certificateExpiry ??= new Gauge({
    name: 'latchkey_certificate_expiry_timestamp_seconds',
    help: 'Earliest expiry in the certificate chain of the public port, in Unix seconds.',
    aggregator: 'first',
  });
  certificateExpiry.set(seconds);
}

export const jwtVerifications = new Counter({
  name: 'latchkey_jwt_verifications_total',
  help: 'Verifications of JWTs from other issuers, by outcome; cached results are not counted.',
  labelNames: ['issuer', 'outcome'] as const,
});

export const jwtKeyFetches = new Counter({
  name: 'latchkey_jwt_key_fetches_total',
  help: "Fetches of a JWT issuer's public keys, by outcome.",
  labelNames: ['issuer', 'outcome'] as const,
});

export const providerLogins = new Counter({
  name: 'latchkey_oidc_logins_total',
  help: 'Logins at OpenID Connect providers, by outcome.',
  labelNames: ['provider', 'outcome'] as const,
});

export const providerLogouts = new Counter({
  name: 'latchkey_oidc_logouts_total',
  help: 'Logout tokens of OpenID Connect providers, by outcome.',
  labelNames: ['provider', 'outcome'] as const,
});

export const providerDiscoveries = new Counter({
  name: 'latchkey_oidc_discoveries_total',
  help: "Fetches of an OpenID Connect provider's configuration, by outcome.",
  labelNames: ['provider', 'outcome'] as const,
});

export const fleetSidecars = new Gauge({
  name: 'latchkey_fleet_sidecars',
  help: 'Sidecars on the same store that are up, according to their heartbeats.',
  aggregator: 'max',
});

export const fleetConfigs = new Gauge({
  name: 'latchkey_fleet_configurations',
  help: 'Distinct configurations of the sidecars on the same store; 1 if all run the same.',
  aggregator: 'max',
});
