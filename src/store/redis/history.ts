import { ReplyError } from 'ioredis';
import type { RememberingStore } from '../remembering.js';
import type { Revocations } from '../revocations.js';
import { BATCH, batches } from './batches.js';
import type { RedisClient } from './client.js';
import type { MasterSession } from './session.js';

/** What became of what a master had forgotten. */
export interface HistoryEvents {
  /** It may have forgotten something. @param reapplied how many revocations had come back and were made again @param lost ids of tokens that are gone */
  readonly changed: (reapplied: number, lost: readonly string[]) => void;
}

/**
 * Tells a master what this process knows to have ended, before the master is used: one that was promoted, or came back
 * without its latest writes, may have forgotten it.
 *
 * @param known whether this process has used a master before; the first one can't have lost anything of it
 */
export async function restoreHistory(
  client: RedisClient,
  session: MasterSession,
  {
    store,
    revocations,
    events,
  }: { store: RememberingStore; revocations: Revocations; events: HistoryEvents },
  known: boolean,
): Promise<void> {
  let reapplied = 0;
  const lost: string[] = [];
  try {
    for (const names of batches(revocations.names()))
      reapplied += ((await client.scriptOn(session, 'reapply', ...names)) as string[]).length;
    for (const ids of batches(store.createdTokens(Date.now())))
      lost.push(...((await client.scriptOn(session, 'missingTokens', ...ids)) as string[]));
  } catch (error) {
    // One that was emptied answers nothing until it is begun anew; what is known to have ended is refused all the same.
    if (!(error instanceof ReplyError && (error as Error).message.startsWith('LATCHKEY '))) throw error;
  }
  store.forgetTokens(lost);
  if (known || reapplied > 0) events.changed(reapplied, lost);
}

/**
 * Learns what ended in the store while this process was not told.
 *
 * @param since time of Redis, in seconds, from which on to ask
 * @returns the time of the latest one
 */
export async function learnRevocations(client: RedisClient, revocations: Revocations, since: number): Promise<number> {
  let latest = since;
  for (let offset = 0; ; offset += BATCH) {
    const found = (await client.script('readRevocations', since, offset)) as string[];
    const names = found.filter((_, i) => i % 2 === 0);
    revocations.note(names);
    latest = Math.max(latest, ...found.filter((_, i) => i % 2 === 1).map(Number));
    if (names.length < BATCH) return latest;
  }
} // prettier-ignore
