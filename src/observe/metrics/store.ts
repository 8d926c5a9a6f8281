import { counter, Counts, gauge, gaugeOnDemand, Histogram } from './series.js';

export const storeMetrics = {
  lastSeenFailures: counter('latchkey_last_seen_write_failures_total', 'Failed writes of last-seen data, which are retried.'),
  staleTokensServed: counter('latchkey_stale_tokens_served_total', 'Requests allowed from the cache while the store was unavailable (on_store_failure).'),
  failures: counter('latchkey_store_errors_total', 'Store operations that failed.', ['operation']),
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

/** Few kinds keep the number of metrics small. */
export type StoreOperation = 'find_token' | 'find_session' | 'read' | 'write' | 'record_uses';

const cacheLookups = new Counts(
  'latchkey_cache_lookups_total',
  'Token look-ups in the cache in front of a networked store.',
);
const cacheHits = cacheLookups.add({ result: 'hit' });
const cacheMisses = cacheLookups.add({ result: 'miss' });

const operations = new Histogram(
  'latchkey_store_operation_duration_seconds',
  'Duration of store operations below the cache, successful or not.',
  'operation',
);

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

export function observeStoreOperation(operation: StoreOperation, seconds: number, failed: boolean): void {
  operations.of(operation).observe(seconds);
  if (failed) storeMetrics.failures.inc({ operation });
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
