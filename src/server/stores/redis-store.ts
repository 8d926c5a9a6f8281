import { createLogThrottle } from '../../util/time.js';
import type { Config } from '../../config/schema/config.js';
import type { Log } from '../../observe/log.js';
import { countHistoryChange, storeMetrics } from '../../observe/metrics.js';
import { Creations, RevocationFiles, Revocations } from '../../store/revocations.js';
import { CHANGED_KEYS } from '../../store/endings.js';
import {
  BEGINNING_KEYS,
  checkFormat,
  dataLossRisks,
  type HistoryChange,
  learnRevocations,
  openRedisStore,
  reapplyRevocations,
  redisStore,
  restoreHistory,
} from '../../store/redis.js';
import { RedisClient } from '../../store/redis/client.js';
import { keyOf, QUESTION } from '../../store/core/kinds.js';
import { Feed } from '../../store/link.js';
import { InvalidationLink } from '../../store/redis/invalidation.js';
import {
  cacheFor,
  emitOpenQuestions,
  type NetworkedStore,
  reportLink,
  type StoreUser,
  tellEndings,
} from './networked-store.js';
import { mapMaybe } from '../../util/async.js';
import type { User } from '../../domain/user.js';
import type { Store } from '../../store/core/store.js';

type Settings = Extract<Config['store'], { type: 'redis' }>;

/** Opens a store on Redis. @throws StoreUnusable, StoreUnavailable in a command */
export async function openRedis(
  config: Config,
  settings: Settings,
  user: StoreUser,
): Promise<NetworkedStore> {
  if (typeof user === 'string') {
    const redis = await openRedisStore(settings);
    if (user === 'command') await checkFormat(redis.client);
    return { store: redis, close: async () => redis.maintenance.close() };
  }
  const { log, endings } = user;
  const revocations = new Revocations(openRevocationFiles(settings.revocations, log));
  const creations = new Creations(revocations);
  const client = new RedisClient(settings);
  const redis = redisStore(client);
  const corrected = withRevocations(redis, revocations);
  const memory = { revocations, creations, recovers: settings.acknowledge !== null };
  let known = false;
  let learned = 0;
  /** An emptied store may begin again with what was revoked: legacy keys in a directory file. */
  const reapply = (): void => {
    reapplyRevocations(redis, revocations).then(
      (reapplied) => reapplied > 0 && noteHistory(log, { reapplied, recovered: 0, lost: [] }),
      () => undefined,
    );
  };
  const { announcementPrefix: announced } = client;
  const feed = new Feed(announced);
  feed.on('ended', (names) => revocations.note(names));
  const { store, changing } = cacheFor(config, log, feed, corrected, revocations, settings.url === null);
  tellEndings(feed, endings);
  const catchUp = async (): Promise<void> => {
    learned = await learnRevocations(client, (names) => feed.emit('ended', names), learned);
    await emitOpenQuestions(feed, redis.kv);
  };
  feed.on('up', () => {
    reapply();
    catchUp().catch(() => undefined);
  });
  feed.on('changed', (keys) => {
    if (keys?.some((key) => BEGINNING_KEYS.includes(key)) === true) reapply();
  });
  reportLink(feed, log, async () => dataLossRisks(client));
  client.events = {
    changing: async (change, make) => {
      const note = creations.noting(change, (key) => redis.kv.recent(key));
      const revision = await changing(change, make);
      if (revision !== null) note();
      return revision;
    },
    adopt: async (session, forgetful) => {
      if (!forgetful) return;
      const change = await restoreHistory(client, redis.events, session, memory);
      // The first master cannot have lost anything that this process wrote.
      if (known || change.reapplied > 0) noteHistory(log, change);
      known = true;
    },
  }; // prettier-ignore
  await client.connected();
  const watched = [...CHANGED_KEYS, ...BEGINNING_KEYS, announced, keyOf(QUESTION, '')];
  const link = new InvalidationLink(client, settings, watched, feed);
  return {
    store,
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

/** Corrects what a store says by the revocations that this process knows. */
export function withRevocations(inner: Store, revocations: Revocations): Store {
  const { tokens, sessions, directory } = inner;
  const corrected = (found: User | undefined) => found && revocations.correctedUser(found);
  return {
    ...inner,
    tokens: {
      ...tokens,
      find: (digest) =>
        mapMaybe(tokens.find(digest), (found) => {
          if (found === undefined || revocations.hasToken(found.token)) return undefined;
          const owner = revocations.correctedUser(found.owner);
          const token = revocations.corrected(found.token);
          return owner === found.owner && token === found.token ? found : { token, owner };
        }),
    },
    sessions: {
      ...sessions,
      find: (digest) =>
        mapMaybe(sessions.find(digest), (found) => {
          if (found === undefined || revocations.hasSession(digest)) return undefined;
          return { session: found.session, owner: revocations.correctedUser(found.owner) };
        }),
    },
    directory: {
      ...directory,
      getUser: (id) => mapMaybe(directory.getUser(id), corrected),
      getUserByLogin: (login) => mapMaybe(directory.getUserByLogin(login), corrected),
    },
  };
}
