import type { Config } from '../../config/schema/config.js';
import { connectionFields } from '../../util/system-error.js';
import type { Log } from '../../observe/log.js';
import { countCacheLookup, invalidationLag, noteLinkAlive, storeMetrics } from '../../observe/metrics.js';
import type { KnownRevocations } from '../../store/cache/bridge.js';
import { cachedStore, TokenCache } from '../../store/cache/token-cache.js';
import { keyOf, QUESTION as QUESTIONS } from '../../store/core/kinds.js';
import { changedByKey, endedByName, type Endings } from '../../store/endings.js';
import type { LinkEvents } from '../../store/link.js';
import type { Changing } from '../../store/core/kv.js';
import type { Store } from '../../store/core/store.js';

/** Prefix of the keys of questions to all processes. */
const QUESTION = keyOf(QUESTIONS, '');

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

/** Returns a store without a cache, unless its check fails. */
export async function checked(store: Store, check: Promise<void> | undefined): Promise<NetworkedStore> {
  const close = async () => store.maintenance.close();
  await check?.catch(async (error: unknown) => {
    await close();
    throw error;
  });
  return { store, close };
}

/** What differs between kinds of networked stores. */
interface Kind {
  readonly name: 'Redis' | 'PostgreSQL';
  readonly store: Store;
  readonly revocations: KnownRevocations & { readonly note: (names: readonly string[]) => void };
  readonly bridgesFailover: boolean;
  /** Prefix of the names of what ended, among the names of what changed. */
  readonly announced: string;
  /** Handles what ended while no notifications were received. Returns the open questions. */
  readonly catchUp: () => Promise<readonly string[]>;
  /** Called with keys of changed records. */
  readonly changed: (names: readonly string[]) => void;
  /** Returns the reasons why it may lose acknowledged writes. */
  readonly dataLossRisks: () => Promise<readonly string[]>;
}

/**
 * Puts a cache in front of a store.
 *
 * @returns the store, what makes each change, and the handlers of the link to the store
 */
export function cacheFor(
  config: Pick<Config, 'cache' | 'on_store_failure'>,
  { log, endings }: { readonly log: Log; readonly endings: Endings },
  kind: Kind,
): { store: Store; changing: Changing; events: LinkEvents } {
  const failure = config.on_store_failure;
  const isRedis = kind.name === 'Redis';
  let [said, skewed] = [false, false];
  let knownRisks: readonly string[] = [];
  const settings = {
    ...config.cache,
    serveCachedFor: failure === 'deny' ? null : failure.serve_cached_for,
    bridgesFailover: kind.bridgesFailover,
  };
  const cache = new TokenCache(kind.store, kind.revocations, settings, {
    hit: () => countCacheLookup('hit'),
    miss: () => countCacheLookup('miss'),
    servedStale: (bridges) => {
      (bridges ? storeMetrics.bridgedTokens : storeMetrics.staleTokensServed).inc();
      if (!said) log.warn('store unavailable; serving recently used tokens from the cache');
      said = true;
    },
    received: (ms) => invalidationLag.observe(ms / 1000),
  });
  const ended = (names: readonly string[]): void => {
    kind.revocations.note(names);
    cache.ended(names);
    endings.ended(endedByName(names));
  };
  /** Warns of each reason once, also of those that arise later. If the store cannot say, it is asked again. */
  const warnOfLoss = async (): Promise<void> => {
    const reasons = await kind.dataLossRisks();
    for (const reason of reasons.filter((each) => !knownRisks.includes(each)))
      log.warn({ reason }, isRedis ? 'Redis may lose acknowledged writes' : 'PostgreSQL may lose acknowledged writes');
    knownRisks = reasons;
  };
  noteLinkAlive();
  const events: LinkEvents = {
    up: (until) => {
      said = false;
      storeMetrics.storeLinksUp.set(1);
      noteLinkAlive();
      cache.enable(until);
      endings.resumed();
      log.info('receiving store change notifications; cache enabled');
      knownRisks = [];
      warnOfLoss().catch(() => undefined);
      kind.catchUp().then(
        (questions) => questions.forEach((question) => endings.asked(question)),
        () => undefined,
      );
    },
    alive: (until) => {
      noteLinkAlive();
      cache.cover(until);
    },
    lost: (reason) => {
      storeMetrics.storeLinksUp.set(0);
      cache.disable();
      log.warn({ reason }, 'cache invalidation link lost; cache disabled');
    },
    failed: () => storeMetrics.linkFailures.inc(),
    notUp: (cause) =>
      log.warn(
        { ...connectionFields(cause), reason: cause.message },
        'cache invalidation link not established; cache disabled',
      ),
    skew: (ms) => {
      storeMetrics.clockSkew.set(Math.abs(ms) / 1000);
      const apart = Math.abs(ms) > MAX_SKEW_MS;
      const fields = { seconds: Math.round(ms / 1000) };
      if (apart && !skewed)
        log.warn(fields, isRedis ? 'clock skew between this machine and Redis' : 'clock skew between this machine and PostgreSQL');
      skewed = apart;
      warnOfLoss().catch(() => undefined);
    },
    changed: (names) => {
      const revoked = names?.filter((name) => name.startsWith(kind.announced)) ?? [];
      if (revoked.length > 0) ended(revoked.map((name) => name.slice(kind.announced.length)));
      if (names?.every((name) => name.startsWith(QUESTION)) !== true) {
        cache.changed(names);
        endings.ended(names && changedByKey(names), false);
      }
      if (names !== null) kind.changed(names);
      for (const name of names ?? [])
        if (name.startsWith(QUESTION)) endings.asked(name.slice(QUESTION.length));
    },
  };
  const changing: Changing = async (change, make) => {
    const revision = await cache.changing(change, make);
    if (revision !== null && change.tell.length > 0) ended(change.tell);
    return revision;
  };
  return { store: cachedStore(kind.store, cache), changing, events };
} // prettier-ignore
