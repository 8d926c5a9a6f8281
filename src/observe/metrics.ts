import { AggregatorRegistry, collectDefaultMetrics, Counter, Gauge, Histogram, register } from 'prom-client';

const requests = new Counter({
  name: 'latchkey_requests_total',
  help: 'Requests by how they ended: "forwarded", "answered", or the reason of the refusal.',
  labelNames: ['outcome', 'status_class'] as const,
});

const duration = new Histogram({
  name: 'latchkey_request_duration_seconds',
  help: 'Time from a read head to the end of the answer.',
  labelNames: ['outcome'] as const,
  buckets: [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30],
});

const lastSeenFailures = new Counter({
  name: 'latchkey_last_seen_write_failures_total',
  help: 'Writes of last uses that failed and were kept for the next one.',
});

const cacheLookups = new Counter({
  name: 'latchkey_cache_lookups_total',
  help: 'Look-ups of tokens in the cache before a networked store.',
  labelNames: ['result'] as const,
});
const cacheHits = cacheLookups.labels('hit');
const cacheMisses = cacheLookups.labels('miss');

const staleServed = new Counter({
  name: 'latchkey_stale_tokens_served_total',
  help: 'Requests let in by a token from the cache because the store could not be asked (on_store_failure).',
});

const storeLink = new Gauge({
  name: 'latchkey_store_links_up',
  help: 'Processes that are told of changes in a networked store. Without it their cache is not used.',
});

const connections = new Gauge({
  name: 'latchkey_connections',
  help: 'Open connections of clients.',
});

const refusedConnections = new Counter({
  name: 'latchkey_connections_refused_total',
  help: 'Connections that were closed at once because there were too many (limits.connections).',
});

const streams = new Gauge({
  name: 'latchkey_streams',
  help: 'Requests and WebSockets under way whose credential is checked again while they last.',
});

const droppedLogLines = new Counter({
  name: 'latchkey_log_dropped_total',
  help: 'Log writes that were given up because nobody took them; the server does not wait for its log.',
});

const auditFailures = new Counter({
  name: 'latchkey_audit_failures_total',
  help: 'Entries of the audit log that could not be written.',
});

const workers = new Gauge({
  name: 'latchkey_workers',
  help: 'Processes that serve requests.',
  aggregator: 'first',
});

const reloadSuccessful = new Gauge({
  name: 'latchkey_config_last_reload_successful',
  help: 'Whether the configuration and directory that were read last are the ones that serve (1) or were refused (0).',
  aggregator: 'first',
});
reloadSuccessful.set(1);

/** How a request ended, as the metrics tell it. */
export type Outcome = string;

/** Counts one request. */
export function countRequest(outcome: Outcome, status: number | null, seconds: number): void {
  requests.inc({ outcome, status_class: status === null ? 'none' : `${Math.floor(status / 100)}xx` });
  duration.observe({ outcome }, seconds);
}

/** Counts a failed write of last uses. */
export function countLastSeenFailure(): void {
  lastSeenFailures.inc();
}

/** Counts a look-up in the cache. */
export function countCacheLookup(result: 'hit' | 'miss'): void {
  (result === 'hit' ? cacheHits : cacheMisses).inc();
}

/** Counts a token that was let in from the cache while the store could not be asked. */
export function countStaleServed(): void {
  staleServed.inc();
}

/** Tells how many clients are connected. */
export function setConnections(count: number): void {
  connections.set(count);
}

/** Counts a connection that was closed at once. */
export function countRefusedConnection(): void {
  refusedConnections.inc();
}

/** Tells how many streams are under way. */
export function setStreams(count: number): void {
  streams.set(count);
}

/** Counts a write to the log that was given up. */
export function countDroppedLog(): void {
  droppedLogLines.inc();
}

/** Counts an entry of the audit log that could not be written. */
export function countAuditFailure(): void {
  auditFailures.inc();
}

/** Tells whether this process is told of changes in the store. */
export function setStoreLink(up: boolean): void {
  storeLink.set(up ? 1 : 0);
}

/** Tells whether the last reload took effect. */
export function setReloaded(successful: boolean): void {
  reloadSuccessful.set(successful ? 1 : 0);
}

/** Tells how many processes serve. */
export function setWorkers(count: number): void {
  workers.set(count);
}

/** Starts the process metrics (memory, event loop, open files). */
export function startProcessMetrics(): void {
  collectDefaultMetrics({ prefix: 'latchkey_' });
}

/** Metrics of this process as Prometheus text. */
export async function renderMetrics(): Promise<{ type: string; text: string }> {
  return { type: register.contentType, text: await register.metrics() };
}

/** Metrics of this process as values that can be sent to another one. */
export async function readMetrics(): Promise<unknown[]> {
  return register.getMetricsAsJSON();
}

/** Metrics of several processes, summed, as Prometheus text. The first one counts where a sum means nothing. */
export async function renderSum(processes: readonly unknown[][]): Promise<{ type: string; text: string }> {
  const summed = AggregatorRegistry.aggregate(processes as object[]);
  return { type: summed.contentType, text: await summed.metrics() };
}

const failedHandshakes = new Counter({
  name: 'latchkey_tls_handshake_failures_total',
  help: 'Connections of clients that ended before their TLS handshake was done.',
});

let certificateExpiry: Gauge | undefined;

/** Counts a TLS handshake that failed. */
export function countFailedHandshake(): void {
  failedHandshakes.inc();
}

/** Tells when the certificate of the public port expires, in seconds since 1970. Without TLS there is no such metric. */
export function setCertificateExpiry(seconds: number): void {
  certificateExpiry ??= new Gauge({
    name: 'latchkey_certificate_expiry_timestamp_seconds',
    help: 'When the certificate of the public port expires: the first of its chain, in seconds since 1970.',
    aggregator: 'first',
  });
  certificateExpiry.set(seconds);
}
