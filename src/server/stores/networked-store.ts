import type { Config } from '../../config/schema/config.js';
import { connectionFields } from '../../util/system-error.js';
import type { Log } from '../../observe/log.js';
import { countCacheLookup, invalidationLag, noteLinkAlive, storeMetrics } from '../../observe/metrics.js';
import type { KnownRevocations } from '../../store/cache/bridge.js';
import { cachedStore } from '../../store/cache/cached-store.js';
import { TokenCache } from '../../store/cache/token-cache.js';
import { keyOf, QUESTION as QUESTIONS } from '../../store/core/kinds.js';
import { changedByKey, endedByName, type Endings } from '../../store/endings.js';
import type { LinkEvents } from '../../store/link.js';
import type { OnOperation } from '../../store/measured.js';
import type { Store } from '../../store/store.js';

/** Prefix of the keys of questions to all processes. */
const QUESTION = keyOf(QUESTIONS, '');

/** Maximum clock skew before a warning: each machine decides expiry by its own clock. */
const MAX_SKEW_MS = 5_000;

/**
 * Who opens a store: a process that serves requests and gets a cache with an invalidation link, the
 * process that supervises such processes, or a command.
 */
export type StoreUser =
  | { readonly log: Log; readonly onOperation: OnOperation; readonly endings: Endings }
  | 'supervisor'
  | 'command';

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
  readonly store: Store;
  readonly revocations: KnownRevocations;
  readonly bridgesFailover: boolean;
  /** Prefix of the names of what ended, among the names of what changed. */
  readonly announced: string;
  /** Records what ended. @param names as in `revocations.ts` */
  readonly note: (names: readonly string[]) => void;
  /** Handles what ended while no notifications were received. Returns the open questions. */
  readonly catchUp: () => Promise<readonly string[]>;
  /** Called with keys of changed records. */
  readonly changed: (names: readonly string[]) => void;
  /** Returns the reasons why it may lose acknowledged writes. */
  readonly dataLossRisks: () => Promise<readonly string[]>;
  /** Warns of one of them. */
  readonly warnOfLoss: (reason: string) => void;
  /** Warns that its clock is ahead by some seconds, or behind. */
  readonly warnOfSkew: (seconds: number) => void;
}

/**
 * Puts a cache in front of a store.
 *
 * @returns the store, a function to be called with what this process ended, and the handlers of the
 * link to the store
 */
export function cacheFor(
  config: Pick<Config, 'cache' | 'on_store_failure'>,
  { log, endings }: { readonly log: Log; readonly endings: Endings },
  kind: Kind,
): { store: Store; ended: (names: readonly string[]) => void; events: LinkEvents } {
  const failure = config.on_store_failure;
  let [said, skewed] = [false, false];
  const cache = new TokenCache(
    kind.store,
    kind.revocations,
    {
      ...config.cache,
      serveCachedFor: failure === 'deny' ? null : failure.serve_cached_for,
      bridgesFailover: kind.bridgesFailover,
    },
    {
      hit: () => countCacheLookup('hit'),
      miss: () => countCacheLookup('miss'),
      servedStale: () => {
        storeMetrics.staleTokensServed.inc();
        if (!said) log.warn('store unavailable; serving recently used tokens from the cache');
        said = true;
      },
      received: (ms) => invalidationLag.observe(ms / 1000),
    },
  );
  const ended = (names: readonly string[]): void => {
    kind.note(names);
    cache.ended(names);
    endings.ended(endedByName(names));
  };
  const lossWarnings = new LossWarnings(kind);
  noteLinkAlive();
  const events: LinkEvents = {
    up: (until) => {
      said = false;
      storeMetrics.storeLinksUp.set(1);
      noteLinkAlive();
      cache.enable(until);
      endings.resumed();
      log.info('receiving store change notifications; cache enabled');
      lossWarnings.repeat();
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
      if (apart && !skewed) kind.warnOfSkew(Math.round(ms / 1000));
      skewed = apart;
      lossWarnings.check();
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
  return { store: cachedStore(kind.store, cache), ended, events };
}

/** Warns of each reason why a store may lose writes, also of those that arise later. */
class LossWarnings {
  readonly #kind: Pick<Kind, 'dataLossRisks' | 'warnOfLoss'>;
  #known: readonly string[] = [];

  constructor(kind: Pick<Kind, 'dataLossRisks' | 'warnOfLoss'>) {
    this.#kind = kind;
  }

  repeat(): void {
    this.#known = [];
    this.check();
  }

  check(): void {
    this.#kind.dataLossRisks().then(
      (reasons) => {
        for (const reason of reasons) if (!this.#known.includes(reason)) this.#kind.warnOfLoss(reason);
        this.#known = reasons;
      },
      () => undefined,
    );
  }
}
