import { ReplyError } from 'ioredis';
import type { Creation, Creations } from '../creations.js';
import type { Events } from '../core/events.js';
import { recover, reapply } from '../core/recovery.js';
import { Transactor } from '../core/transaction.js';
import type { RedisStore } from '../redis.js';
import type { Revocations } from '../revocations.js';
import type { RedisClient } from './client.js';
import { nameOfHistory } from './identity.js';
import { RedisKv } from './kv.js';
import { BATCH, REVOCATIONS } from './scripts.js';
import type { MasterSession } from './session.js';

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
  const transactor = new Transactor(RedisKv.on(client, session));
  let [reapplied, recovered] = [0, 0];
  const lost: Creation[] = [];
  try {
    if (recovers) await client.scriptOn(session, 'beginRecovery', nameOfHistory(session.identity));
    reapplied = await reapply(transactor, events, revocations.names(), REVOCATIONS);
    for (const creation of creations.current(Date.now())) {
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
    learned(names);
    latest = Math.max(latest, ...found.filter((_, i) => i % 2 === 1).map(Number));
    if (names.length < BATCH) return latest;
  }
} // prettier-ignore
