import { ReplyError } from 'ioredis';
import type { Creation, Creations } from '../creations.js';
import type { RedisStore } from '../redis.js';
import type { Revocations } from '../revocations.js';
import { BATCH, batches } from './batches.js';
import type { RedisClient } from './client.js';
import { nameOfHistory } from './identity.js';
import { ownerText, text } from './records.js';
import type { MasterSession } from './session.js';

/** The result of restoring what a master had lost. */
export interface HistoryChange {
  /** Number of revocations that were undone and have been reapplied. */
  readonly reapplied: number;
  /** Number of tokens and sessions that were written again. */
  readonly recovered: number;
  /** Ids of tokens that are lost. */
  readonly lost: readonly string[];
}

/** What a process can restore to a master that lost it. */
export interface Memory {
  readonly revocations: Revocations;
  readonly creations: Creations;
  /** Whether creations are acknowledged by replicas, so that none may be lost. */
  readonly recovers: boolean;
}

/**
 * Restores known revocations and creations to a master before it is used. A master that was
 * promoted, or came back without its latest writes, may have lost them.
 */
export async function restoreHistory(
  client: RedisClient,
  session: MasterSession,
  { revocations, creations, recovers }: Memory,
): Promise<HistoryChange> {
  let [reapplied, recovered] = [0, 0];
  const lost: Creation[] = [];
  try {
    if (recovers) await client.scriptOn(session, 'beginRecovery', nameOfHistory(session.identity));
    for (const names of batches(revocations.names()))
      reapplied += ((await client.scriptOn(session, 'reapply', ...names)) as string[]).length;
    for (const some of batches(creations.current(Date.now()))) {
      const [made, missing] = await (recovers ? recover : findLost)(client, session, some);
      recovered += made;
      lost.push(...missing);
    }
  } catch (error) {
    // An emptied store refuses every script until it is initialized again.
    // Known revocations still apply.
    if (!(error instanceof ReplyError && (error as Error).message.startsWith('LATCHKEY '))) throw error;
  }
  creations.forget(lost);
  const tokens = lost.filter(({ kind }) => kind === 'token').map(({ record }) => record.id);
  await endLost(client, session, revocations, tokens);
  return { reapplied, recovered, lost: tokens };
}

/**
 * Reapplies known revocations to the store in use, which may have been emptied and begun again.
 * While it is being restored, nothing is reapplied.
 *
 * @returns the number of revocations that were undone
 * @throws StoreUnavailable
 */
export async function reapplyRevocations({ client, maintenance }: RedisStore, revocations: Revocations): Promise<number> {
  const names = revocations.names();
  if (names.length === 0 || (await maintenance.isRestoring())) return 0;
  let reapplied = 0;
  for (const some of batches(names)) reapplied += ((await client.script('reapply', ...some)) as string[]).length;
  return reapplied;
} // prettier-ignore

/**
 * Revokes lost tokens. Another failover could bring them back after they were refused as unknown.
 */
async function endLost(
  client: RedisClient,
  session: MasterSession,
  revocations: Revocations,
  ids: readonly string[],
): Promise<void> {
  const names = ids.map((id) => `token:${id}`);
  revocations.note(names);
  for (const some of batches(names)) await client.scriptOn(session, 'reapply', ...some);
}

/** The number of creations that were written again, and those that are lost. */
type Recovery = readonly [made: number, lost: readonly Creation[]];

async function recover(client: RedisClient, session: MasterSession, some: readonly Creation[]): Promise<Recovery> {
  const answer = await client.scriptOn(session, 'recover', ...some.map(creationText));
  const [made, digests] = answer as [number, string[]];
  const lost = new Set(digests);
  return [made, some.filter(({ record }) => lost.has(record.digest))];
} // prettier-ignore

/** Finds the tokens that do not exist; lost sessions are not reported. */
async function findLost(client: RedisClient, session: MasterSession, some: readonly Creation[]): Promise<Recovery> {
  const tokens = some.filter(({ kind }) => kind === 'token');
  const ids = await client.scriptOn(session, 'missingTokens', ...tokens.map(({ record }) => record.id));
  const missing = new Set(ids as string[]);
  return [0, tokens.filter(({ record }) => missing.has(record.id))];
} // prettier-ignore

/** Serializes a creation for a script. */
function creationText({ kind, record, owner }: Creation): string {
  return JSON.stringify({ kind, text: text(record), owner: JSON.parse(ownerText(owner)) });
}

/**
 * Reads what ended in the store while this process received no notifications.
 *
 * @param learned called with the names
 * @param since time of Redis, in seconds, from which to read
 * @returns the time of the latest one
 */
export async function learnRevocations(client: RedisClient, learned: (names: string[]) => void, since: number): Promise<number> {
  let latest = since;
  for (let offset = 0; ; offset += BATCH) {
    const found = (await client.script('readRevocations', since, offset)) as string[];
    const names = found.filter((_, i) => i % 2 === 0);
    learned(names);
    latest = Math.max(latest, ...found.filter((_, i) => i % 2 === 1).map(Number));
    if (names.length < BATCH) return latest;
  }
} // prettier-ignore
