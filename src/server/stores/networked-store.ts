import { createLogThrottle } from '../../util/time.js';
import type { Config } from '../../config/schema/config.js';
import { connectionFields } from '../../util/system-error.js';
import type { Log } from '../../observe/log.js';
import {
  countCacheLookup,
  countHistoryChange,
  invalidationLag,
  noteLinkAlive,
  storeMetrics,
} from '../../observe/metrics/store.js';
import { cachedStore } from '../../store/cache/cached-store.js';
import { TokenCache } from '../../store/cache/token-cache.js';
import { Creations } from '../../store/creations.js';
import { CHANGED_KEYS, changedByKey, endedByName, type Endings } from '../../store/endings.js';
import { measured, type OnOperation } from '../../store/measured.js';
import { openRedisStore, redisStore } from '../../store/redis.js';
import { RedisClient } from '../../store/redis/client.js';
import { openQuestions } from '../../store/core/fleet.js';
import { keyOf, QUESTION as QUESTIONS } from '../../store/core/kinds.js';
import { type HistoryChange, learnRevocations, reapplyRevocations, restoreHistory } from '../../store/redis/history.js'; // prettier-ignore
import { RedisKv } from '../../store/redis/kv.js';
import { InvalidationLink } from '../../store/redis/invalidation.js';
import { RevocationFiles } from '../../store/revocation-file.js';
import { Revocations } from '../../store/revocations.js';
import type { Store } from '../../store/store.js';
import { withRevocations } from '../../store/with-revocations.js';
import { BEGINNING_KEYS, checkFormat, dataLossRisks } from '../../store/redis/maintenance.js';

/** Prefix of the keys of questions to all processes. */
const QUESTION = keyOf(QUESTIONS, '');

type Settings = Extract<Config['store'], { type: 'redis' }>;

/** Maximum clock skew before a warning: each machine decides expiry by its own clock. */
const MAX_SKEW_MS = 5_000;

export async function openNetworkedStore(
  config: Config,
  settings: Settings,
  server:
    | { readonly log: Log; readonly onOperation: OnOperation; readonly endings: Endings }
    | 'supervisor'
    | undefined,
): Promise<{ store: Store; close: () => Promise<void> }> {
  if (server === undefined || server === 'supervisor') {
    const redis = await openRedisStore(settings);
    const checked = server === undefined ? checkFormat(redis.client) : undefined;
    await checked?.catch(async (error: unknown) => {
      await redis.maintenance.close();
      throw error;
    });
    return { store: redis, close: () => redis.maintenance.close() };
  }
  const { log, onOperation, endings } = server;
  const failure = config.on_store_failure;
  const revocations = new Revocations(openRevocationFiles(settings.revocations, log));
  const creations = new Creations(revocations);
  const client = new RedisClient(settings);
  const plain = redisStore(client);
  const redis = measured(plain, onOperation);
  const corrected = withRevocations(redis, revocations, creations);
  const cache = new TokenCache(
    corrected,
    revocations,
    {
      ...config.cache,
      serveCachedFor: failure === 'deny' ? null : failure.serve_cached_for,
      bridgesFailover: settings.url === null,
    },
    {
      hit: () => countCacheLookup('hit'),
      miss: () => countCacheLookup('miss'),
      servedStale: () => {
        storeMetrics.staleTokensServed.inc();
        staleOnce();
      },
      received: (ms) => invalidationLag.observe(ms / 1000),
    },
  );
  const ended = (names: readonly string[]): void => {
    revocations.note(names);
    cache.ended(names);
    endings.ended(endedByName(names));
  };
  /** Handles what ended while no notifications were received. */
  const missed = (names: readonly string[]): void => {
    revocations.note(names);
    endings.ended(endedByName(names));
  };
  const memory = { revocations, creations, recovers: settings.acknowledge !== null };
  let known = false;
  let learned = 0;
  client.events = {
    ended,
    adopt: async (session, forgetful) => {
      if (!forgetful) return;
      const change = await restoreHistory(client, plain.events, session, memory);
      // The first master cannot have lost anything that this process wrote.
      if (known || change.reapplied > 0) noteHistory(log, change);
      known = true;
    },
  }; // prettier-ignore
  /** An emptied store may begin again with what was revoked: legacy keys in a directory file. */
  const reapply = (): void => {
    reapplyRevocations(plain, revocations).then(
      (reapplied) => reapplied > 0 && noteHistory(log, { reapplied, recovered: 0, lost: [] }),
      () => undefined,
    );
  };
  await client.connected();
  let said = false;
  const staleOnce = (): void => {
    if (!said) log.warn('store unavailable; serving recently used tokens from the cache');
    said = true;
  };
  noteLinkAlive();
  let skewed = false;
  const lossWarnings = new LossWarnings(client, log);
  const { announcementPrefix: announced } = client;
  const watched = [...CHANGED_KEYS, ...BEGINNING_KEYS, announced, QUESTION];
  const link = new InvalidationLink(client, settings, watched, {
    up: (until) => {
      said = false;
      storeMetrics.storeLinksUp.set(1);
      noteLinkAlive();
      cache.enable(until);
      endings.resumed();
      log.info('receiving store change notifications; cache enabled');
      lossWarnings.repeat();
      reapply();
      learnRevocations(client, missed, learned)
        .then(async (latest) => {
          learned = latest;
          for (const question of await openQuestions(RedisKv.of(client))) endings.asked(question);
        })
        .catch(() => undefined);
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
      if (apart && !skewed)
        log.warn({ seconds: Math.round(ms / 1000) }, 'clock skew between this machine and Redis');
      skewed = apart;
      lossWarnings.check();
    },
    changed: (names) => {
      const revoked = names?.filter((name) => name.startsWith(announced)) ?? [];
      if (revoked.length > 0) ended(revoked.map((name) => name.slice(announced.length)));
      if (names?.every((name) => name.startsWith(QUESTION)) !== true) {
        cache.changed(names);
        endings.ended(names && changedByKey(names), false);
      }
      if (names?.some((name) => BEGINNING_KEYS.includes(name)) === true) reapply();
      for (const name of names ?? [])
        if (name.startsWith(QUESTION)) endings.asked(name.slice(QUESTION.length));
    },
  });
  return {
    store: cachedStore(corrected, cache),
    close: async () => {
      link.close();
      await client.close();
    },
  };
}

/** @throws Error when the directory cannot be used */
function openRevocationFiles(folder: string | null, log: Log): RevocationFiles | null {
  if (folder === null) return null;
  const throttle = createLogThrottle();
  return new RevocationFiles(folder, (error) => {
    storeMetrics.unsavedRevocations.inc();
    const suppressed = throttle();
    if (suppressed === undefined) return;
    log.error({ err: error, folder, suppressed }, 'revocations not saved to disk; a restart loses them');
  });
}

/** Maximum number of lost token ids in the log. */
const LOGGED_IDS = 20;

function noteHistory(log: Log, { reapplied, recovered, lost }: HistoryChange): void {
  countHistoryChange(reapplied, lost.length);
  log.warn(
    { revocations_reapplied: reapplied, tokens_lost: lost.length, recovered },
    'store history changed',
  );
  if (lost.length > 0)
    log.error({ token_ids: lost.slice(0, LOGGED_IDS), count: lost.length }, 'tokens lost by the store');
}

/** Warns of each reason why Redis may lose writes, also of those that arise later. */
class LossWarnings {
  readonly #client: RedisClient;
  readonly #log: Log;
  #known: readonly string[] = [];

  constructor(client: RedisClient, log: Log) {
    this.#client = client;
    this.#log = log;
  }

  repeat(): void {
    this.#known = [];
    this.check();
  }

  check(): void {
    dataLossRisks(this.#client).then(
      (reasons) => {
        for (const reason of reasons)
          if (!this.#known.includes(reason)) this.#log.warn({ reason }, 'Redis may lose acknowledged writes');
        this.#known = reasons;
      },
      () => undefined,
    );
  }
}
