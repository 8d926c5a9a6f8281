import type { Config } from '../../config/schema/config.js';
import { connectionFields } from '../../util/system-error.js';
import type { Log } from '../../observe/log.js';
import { countCacheLookup, invalidationLag, noteLinkAlive, storeMetrics } from '../../observe/metrics.js';
import type { KnownRevocations } from '../../store/cache/bridge.js';
import { cachedStore, TokenCache } from '../../store/cache/token-cache.js';
import { openQuestions } from '../../store/core/fleet.js';
import { changedByKey, endedByName, type Endings } from '../../store/endings.js';
import type { Feed } from '../../store/link.js';
import type { Changing, Kv } from '../../store/core/kv.js';
import type { Store } from '../../store/core/store.js';

/** Maximum clock skew before a warning: each machine decides expiry by its own clock. */
const MAX_SKEW_MS = 5_000;

/**
 * Who opens a store: a process that serves requests and gets a cache with an invalidation link, the
 * process that supervises such processes, or a command.
 */
export type StoreUser = { readonly log: Log; readonly endings: Endings } | 'supervisor' | 'command';

export interface NetworkedStore {
  readonly store: Store;
  readonly close: () => Promise<void>;
}

/**
 * Puts a cache in front of a store.
 *
 * @param bridgesFailover whether it is used while another master is being elected
 * @returns the store, and what makes each of its changes
 */
export function cacheFor(
  config: Pick<Config, 'cache' | 'on_store_failure'>,
  log: Log,
  feed: Feed,
  inner: Store,
  revocations: KnownRevocations,
  bridgesFailover: boolean,
): { store: Store; changing: Changing } {
  const failure = config.on_store_failure;
  const serveCachedFor = failure === 'deny' ? null : failure.serve_cached_for;
  let said = false;
  const cache = new TokenCache(
    inner,
    revocations,
    { ...config.cache, serveCachedFor, bridgesFailover },
    {
      hit: () => countCacheLookup('hit'),
      miss: () => countCacheLookup('miss'),
      servedStale: (bridges) => {
        (bridges ? storeMetrics.bridgedTokens : storeMetrics.staleTokensServed).inc();
        if (!said) log.warn('store unavailable; serving recently used tokens from the cache');
        said = true;
      },
      received: (ms) => invalidationLag.observe(ms / 1000),
    },
  );
  feed.on('up', (until) => {
    said = false;
    cache.enable(until);
  });
  feed.on('alive', (until) => cache.cover(until));
  feed.on('lost', () => cache.disable());
  feed.on('ended', (names) => cache.ended(names));
  feed.on('changed', (keys) => cache.changed(keys));
  const changing: Changing = async (change, make) => {
    const revision = await cache.changing(change, make);
    if (revision !== null && change.tell.length > 0) feed.emit('ended', change.tell);
    return revision;
  };
  return { store: cachedStore(inner, cache), changing };
}

/** Tells a process what ended. */
export function tellEndings(feed: Feed, endings: Endings): void {
  feed.on('up', () => endings.emit('resumed'));
  feed.on('ended', (names) => endings.ended(endedByName(names)));
  feed.on('changed', (keys) => endings.ended(keys && changedByKey(keys), false));
  feed.on('asked', (question) => endings.emit('asked', question));
}

/** Emits the questions that were asked while no notifications were received. */
export async function emitOpenQuestions(feed: Feed, kv: Kv): Promise<void> {
  for (const question of await openQuestions(kv)) feed.emit('asked', question);
}

/**
 * Reports the state of the link, and why the store may lose what it acknowledged.
 *
 * @param dataLossRisks returns the reasons
 */
export function reportLink(feed: Feed, log: Log, dataLossRisks: () => Promise<readonly string[]>): void {
  let skewed = false;
  let knownRisks: readonly string[] = [];
  /** Warns of each reason once, also of those that arise later. If the store cannot say, it is asked again. */
  const warnOfLoss = (): void => {
    dataLossRisks().then(
      (reasons) => {
        for (const reason of reasons.filter((each) => !knownRisks.includes(each)))
          log.warn({ reason }, 'the store may lose acknowledged writes');
        knownRisks = reasons;
      },
      () => undefined,
    );
  };
  noteLinkAlive();
  feed.on('up', () => {
    storeMetrics.storeLinksUp.set(1);
    noteLinkAlive();
    log.info('receiving store change notifications; cache enabled');
    knownRisks = [];
    warnOfLoss();
  });
  feed.on('alive', () => noteLinkAlive());
  feed.on('lost', (reason) => {
    storeMetrics.storeLinksUp.set(0);
    log.warn({ reason }, 'cache invalidation link lost; cache disabled');
  });
  feed.on('failed', () => storeMetrics.linkFailures.inc());
  feed.on('notUp', (cause) => {
    const fields = { ...connectionFields(cause), reason: cause.message };
    log.warn(fields, 'cache invalidation link not established; cache disabled');
  });
  feed.on('skew', (ms) => {
    storeMetrics.clockSkew.set(Math.abs(ms) / 1000);
    const apart = Math.abs(ms) > MAX_SKEW_MS;
    if (apart && !skewed)
      log.warn({ seconds: Math.round(ms / 1000) }, 'clock skew between this machine and the store');
    skewed = apart;
    warnOfLoss();
  });
}
