import type { Log } from '../../observe/log.js';
import type { Store } from '../../store/store.js';

const INTERVAL_MS = 60_000;
/** Removed at a time, so that a write never holds the store for long. */
const BATCH = 1_000;
/** An expired token is kept so long that its holder is told why it is refused. */
const KEEP_EXPIRED_TOKENS_MS = 30 * 24 * 3_600_000;

/** Removes what nobody can use any more, in the background. Stop it with `clearInterval`. */
export function startCleaning(store: Store, log: Log): NodeJS.Timeout {
  return setInterval(() => {
    clean(store).catch((error: unknown) => log.warn({ err: error }, 'expired records could not be removed'));
  }, INTERVAL_MS).unref();
}

async function clean(store: Store): Promise<void> {
  const now = Date.now();
  while ((await store.removeExpired(now, now - KEEP_EXPIRED_TOKENS_MS, BATCH)) === BATCH);
}
