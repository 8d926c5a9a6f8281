import type { Log } from '../../observe/log.js';
import { setActiveTokens } from '../../observe/metrics/store.js';
import type { Store } from '../../store/store.js';

const INTERVAL_MS = 60_000;
/** Removed at a time, so that a write never holds the store for long. */
const BATCH = 1_000;
/** An expired token is kept so long that its holder is told why it is refused. */
const KEEP_EXPIRED_TOKENS_MS = 30 * 24 * 3_600_000;

/**
 * Removes what nobody can use any more, in the background, and counts what is left: one process does it for all. Stop it
 * with `clearInterval`.
 */
export function startCleaning(store: Store, log: Log): NodeJS.Timeout {
  // A store that can't answer yet is counted with the first cleaning.
  count(store, Date.now()).catch(() => undefined);
  return setInterval(() => {
    clean(store).catch((error: unknown) => log.warn({ err: error }, 'expired records could not be removed'));
  }, INTERVAL_MS).unref();
}

async function clean(store: Store): Promise<void> {
  const now = Date.now();
  while ((await store.removeExpired(now, now - KEEP_EXPIRED_TOKENS_MS, BATCH)) === BATCH);
  await count(store, now);
}

async function count(store: Store, now: number): Promise<void> {
  setActiveTokens(await store.countActiveTokens(now));
}
