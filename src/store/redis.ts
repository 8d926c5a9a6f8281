import { ReplyError } from 'ioredis';
import { Events } from './core/events.js';
import { coreStore, type Store } from './core/store.js';
import { RedisClient } from './redis/client.js';
import { RedisKv } from './redis/kv.js';
import type { RedisSettings } from './redis/connect.js';
import { measured } from './measured.js';
import { keyOf, META } from './core/kinds.js';
import { StoreUnusable } from './faults.js';
import type { Creation, Creations, Revocations } from './revocations.js';
import { missing, reapply, recover } from './core/recovery.js';
import { Transactor } from './core/transaction.js';
import { type MasterSession, nameOfHistory } from './redis/session.js';
import { BATCH, REVOCATIONS } from './redis/scripts.js';

export interface RedisStore extends Store {
  readonly client: RedisClient;
  readonly kv: RedisKv;
  readonly events: Events;
}

/** Opens the store on Redis or Valkey. The server need not be reachable yet. */
export async function openRedisStore(settings: RedisSettings): Promise<RedisStore> {
  const client = new RedisClient(settings);
  await client.connected();
  return redisStore(client);
}

/** Whether a change survives a crash of Redis depends on `appendonly`; see `docs/storage.md`. */
export function redisStore(client: RedisClient): RedisStore {
  const events = new Events();
  const kv = new RedisKv(client);
  const store = coreStore(measured(kv), events);
  return {
    ...store,
    client,
    kv,
    events,
    maintenance: {
      ...store.maintenance,
      initialize: async (purpose) => {
        await initializeStore(client);
        await store.maintenance.initialize(purpose);
      },
      probeWrite: async () => void (await client.script('probeWrite', [Date.now()], 'urgent')),
    },
  };
}

/** Version of the key layout. Another one is refused. */
const FORMAT = 2;
const MARK = JSON.stringify({ format: FORMAT });
/** Keys that change when a store begins, and when a restore into it begins or ends. */
export const BEGINNING_KEYS: readonly string[] = ['meta', keyOf(META, 'restoring')];

async function initializeStore(client: RedisClient): Promise<void> {
  const risk = await evictionRisk(client);
  if (risk !== undefined) throw new StoreUnusable(risk);
  await checkFormat(client);
  // Every script refuses to run without this mark, so an emptied Redis is noticed.
  await client.command((redis) => redis.set(client.key('meta'), MARK, 'NX'));
}

/** Refuses a store of a newer Latchkey, and keys of another program. A missing store is fine. */
export async function checkFormat(client: RedisClient): Promise<void> {
  const key = client.key('meta');
  const mark = await client
    .command((redis) => redis.get(key))
    .catch((error: unknown) => {
      if (/WRONGTYPE/.test((error as Error).message)) return '';
      throw error;
    });
  if (mark === null || mark === MARK) return;
  const [, format] = /^\{"format":(\d+)\}$/.exec(mark) ?? [];
  throw new StoreUnusable(
    format === undefined
      ? `the key ${key} in Redis does not hold the format of a store; set store.prefix to another value, or remove that key if no other program uses it`
      : `the store in Redis has format ${format}, known: ${FORMAT}; ${Number(format) > FORMAT ? 'update this Latchkey' : 'restore a backup of it into an empty store'}`,
  );
}

/** Eviction would lose tokens and the list of revoked ones. */
async function evictionRisk(client: RedisClient): Promise<string | undefined> {
  const info = await client.command((redis) => redis.info('memory'));
  const policy = /^maxmemory_policy:(\S+)/m.exec(info)?.[1] ?? 'noeviction';
  const limit = Number(/^maxmemory:(\d+)/m.exec(info)?.[1] ?? 0);
  if (policy === 'noeviction' || limit === 0) return undefined;
  return `Redis evicts keys when its memory is full (maxmemory-policy ${policy}); set it to noeviction`;
}

/** Read from `INFO`, because `CONFIG` is often forbidden. */
export async function dataLossRisks(client: RedisClient): Promise<string[]> {
  const info = await client.command((redis) => redis.info('persistence'));
  const failing = /^aof_last_write_status:(?!ok)/m.test(info);
  const unwritten = failing ? 'the append-only file cannot be written; see the log of Redis' : undefined;
  const persistence = /^aof_enabled:1/m.test(info)
    ? unwritten
    : 'the append-only file is off, so a restart of Redis loses revocations; set appendonly yes';
  return [persistence, await evictionRisk(client)].filter((reason) => reason !== undefined);
}

export interface HistoryChange {
  /** Number of revocations that were undone and have been reapplied. */
  readonly reapplied: number;
  readonly recovered: number;
  readonly lost: readonly string[];
}

export interface Memory {
  readonly revocations: Revocations;
  readonly creations: Creations;
  /** Whether creations are acknowledged by replicas, so that none may be lost. */
  readonly recovers: boolean;
}

/** Restores what a promoted or restarted master may have lost, before it is used. */
export async function restoreHistory(
  client: RedisClient,
  events: Events,
  session: MasterSession,
  { revocations, creations, recovers }: Memory,
): Promise<HistoryChange> {
  const kv = new RedisKv(client, session);
  const transactor = new Transactor(kv);
  let [reapplied, recovered] = [0, 0];
  const lost: Creation[] = [];
  try {
    if (recovers) await client.scriptOn(session, 'beginRecovery', nameOfHistory(session.identity));
    reapplied = await reapply(transactor, events, revocations.names(), REVOCATIONS);
    for (const creation of await missing(kv, creations.current(Date.now()))) {
      const mayWrite = recovers && (await client.scriptOn(session, 'isRecovering')) === 1;
      const outcome = await recover(transactor, events, creation, mayWrite, REVOCATIONS);
      if (outcome === 'recovered') recovered += 1;
      // Without acknowledgement, sessions that are lost are not reported.
      else if (outcome === 'lost' && (recovers || creation.kind === 'token')) lost.push(creation);
    }
  } catch (error) {
    // An emptied store refuses every script until it is initialized again.
    if (!(error instanceof ReplyError && (error as Error).message.startsWith('LATCHKEY '))) throw error;
  }
  creations.forget(lost);
  const tokens = lost.filter(({ kind }) => kind === 'token').map(({ record }) => record.id);
  // Another failover could bring them back after they were refused as unknown.
  const names = tokens.map((id) => `token:${id}`);
  revocations.note(names);
  await reapply(transactor, events, names, REVOCATIONS);
  return { reapplied, recovered, lost: tokens };
}

/** Reapplies revocations to the store in use, which may have been emptied and begun again. */
export async function reapplyRevocations({ kv, events, maintenance }: RedisStore, revocations: Revocations): Promise<number> {
  const names = revocations.names();
  if (names.length === 0 || (await maintenance.isRestoring())) return 0;
  return reapply(new Transactor(kv), events, names, REVOCATIONS);
} // prettier-ignore

/**
 * Reads what ended while no notifications arrived. Returns the time of the latest.
 * @param since time of Redis, in seconds
 */
export async function learnRevocations(client: RedisClient, learned: (names: string[]) => void, since: number): Promise<number> {
  let latest = since;
  for (let offset = 0; ; offset += BATCH) {
    const found = (await client.script('readRevocations', [since, offset])) as string[];
    const names = found.filter((_, i) => i % 2 === 0);
    if (names.length > 0) learned(names);
    latest = Math.max(latest, ...found.filter((_, i) => i % 2 === 1).map(Number));
    if (names.length < BATCH) return latest;
  }
} // prettier-ignore
