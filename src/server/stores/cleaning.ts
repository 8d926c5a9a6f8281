import { deletePending } from '../../accounts/pending-deletions.js';
import type { Config } from '../../config/schema/config.js';
import type { Log } from '../../observe/log.js';
import { activeTokens, pendingDeletions, tokensInOverlap } from '../../observe/metrics/store.js';
import type { Store } from '../../store/store.js';
import { ExpiringTokens } from './expiring-tokens.js';
import type { OpenedStore } from './open-store.js';
import { reportEndedOverlaps } from '../../accounts/token-rotations.js';

const INTERVAL_MS = 60_000;
/** A last use has reached the store by then, from every sidecar. */
const SETTLE_MS = 5_000;
/** Removed at a time, so that a write never holds the store for long. */
const BATCH = 1_000;
/** An expired token is kept for this time, so that its holder learns why it is refused. */
const KEEP_EXPIRED_TOKENS_MS = 30 * 24 * 3_600_000;

/** How often last uses reach the store, and how long before its expiry a token is reported. */
type CleaningSettings = Pick<Config['tokens'], 'last_seen_interval' | 'warn_before'>;

/**
 * Removes what nobody can use any more, in the background, and counts what is left: one process does it for all. Stop it
 * with `clearInterval`.
 *
 * @param settings of tokens, as they are now
 */
export function startCleaning(
  opened: OpenedStore,
  log: Log,
  settings: () => CleaningSettings,
): NodeJS.Timeout {
  const { store } = opened;
  const expiring = new ExpiringTokens(opened, () => settings().warn_before);
  // A store that can't answer yet is counted with the first cleaning.
  count(store, Date.now()).catch(() => undefined);
  expiring.look(Date.now()).catch(() => undefined);
  return setInterval(() => {
    clean(opened, expiring, settings().last_seen_interval, log).catch((error: unknown) =>
      log.warn({ err: error }, 'expired records not removed'),
    );
  }, INTERVAL_MS).unref();
}

async function clean(
  opened: OpenedStore,
  expiring: ExpiringTokens,
  lastSeenInterval: number,
  log: Log,
): Promise<void> {
  const { store } = opened;
  const now = Date.now();
  while ((await store.maintenance.removeExpired(now, now - KEEP_EXPIRED_TOKENS_MS, BATCH)) === BATCH);
  await deleteUsers(opened, log, now);
  await reportEndedOverlaps(store.tokens, lastSeenInterval + SETTLE_MS, now, (event) =>
    opened.audit.note({ ...event, actor: null }),
  );
  await count(store, now);
  await expiring.look(now);
}

async function deleteUsers({ store, audit }: OpenedStore, log: Log, now: number): Promise<void> {
  await deletePending(store, now, ({ id, customerId }, outcome) => {
    const target = { user_id: id, customer_id: customerId };
    audit.note({ event: 'user.deleted', outcome, reason: 'not_in_directory', target, actor: null });
    if (outcome === 'success')
      log.info({ user_id: id }, 'user deleted: not in the directory, and the last active token has ended');
  });
}

async function count(store: Store, now: number): Promise<void> {
  activeTokens.set(await store.tokens.countActive(now));
  tokensInOverlap.set(await store.tokens.countInOverlap(now));
  pendingDeletions.set((await store.directory.listPendingDeletions()).length);
}
