import { deletePending } from '../../accounts/pending-deletions.js';
import type { Config } from '../../config/schema/config.js';
import type { Log } from '../../observe/log.js';
import {
  activeTokens,
  expiringTokens,
  pendingDeletions,
  tokensInOverlap,
} from '../../observe/metrics/store.js';
import type { Store } from '../../store/store.js';
import type { OpenedStore } from './open-store.js';
import { reportEndedOverlaps } from '../../accounts/token-rotations.js';
import { tokenExpiringEvent } from '../../accounts/token-audit-events.js';
import type { EpochMs } from '../../domain/time.js';
import { partsOf } from '../../store/parts.js';

const INTERVAL_MS = 60_000;
/** It is looked at tokens this often, and less often where that takes more than a hundredth of the time. */
const LOOK_MS = 5_000;
const LOOK_SHARE = 100;
/** A last use has reached the store by then, from every sidecar. */
const SETTLE_MS = 5_000;
/** Removed at a time, so that a write never holds the store for long. */
const BATCH = 1_000;
/** An expired token is kept for this time, so that its holder learns why it is refused. */
const KEEP_EXPIRED_TOKENS_MS = 30 * 24 * 3_600_000;

/** How often last uses reach the store, and how long before its expiry a token is reported. */
type CleaningSettings = Pick<Config['tokens'], 'last_seen_interval' | 'warn_before'>;

/**
 * Removes what nobody can use any more, in the background, reports what has ended or is about to, and counts what is left:
 * one process does it for all.
 *
 * @param settings of tokens, as they are now
 * @returns stops it
 */
export function startCleaning(opened: OpenedStore, log: Log, settings: () => CleaningSettings): () => void {
  const { store } = opened;
  const expiring = new ExpiringTokens(opened, () => settings().warn_before);
  // A store that can't answer yet is counted with the first cleaning.
  count(store, Date.now()).catch(() => undefined);
  const cleaning = setInterval(() => {
    clean(opened, log).catch((error: unknown) => log.warn({ err: error }, 'expired records not removed'));
  }, INTERVAL_MS).unref();
  const stopLooking = startLooking(
    async () => look(opened, expiring, settings().last_seen_interval),
    (error) => log.warn({ err: error }, 'expired tokens not reported; retrying'),
  );
  return () => {
    clearInterval(cleaning);
    stopLooking();
  };
}

/** Looks at once, and again and again. Where it fails it is tried again after a minute; the first time nothing is told. */
function startLooking(look: () => Promise<void>, failed: (error: unknown) => void): () => void {
  let timer: NodeJS.Timeout | undefined;
  let stopped = false;
  const run = async (isFirst: boolean): Promise<void> => {
    const began = performance.now();
    let wait = INTERVAL_MS;
    try {
      await look();
      wait = Math.min(INTERVAL_MS, Math.max(LOOK_MS, (performance.now() - began) * LOOK_SHARE));
    } catch (error) {
      if (!isFirst) failed(error);
    }
    if (!stopped) timer = setTimeout(() => void run(false), wait).unref();
  };
  void run(true);
  return () => {
    stopped = true;
    clearTimeout(timer);
  };
}

async function clean(opened: OpenedStore, log: Log): Promise<void> {
  const { store } = opened;
  const now = Date.now();
  while ((await store.maintenance.removeExpired(now, now - KEEP_EXPIRED_TOKENS_MS, BATCH)) === BATCH);
  await deleteUsers(opened, log, now);
  await count(store, now);
}

async function look(opened: OpenedStore, expiring: ExpiringTokens, lastSeenInterval: number): Promise<void> {
  const { tokens } = opened.store;
  const now = Date.now();
  await reportEndedOverlaps(tokens, lastSeenInterval + SETTLE_MS, now, (event) =>
    opened.audit.note({ ...event, actor: null }),
  );
  tokensInOverlap.set(await tokens.countInOverlap(now));
  await expiring.look(now);
}

async function deleteUsers({ store, audit }: OpenedStore, log: Log, now: number): Promise<void> {
  await deletePending(store, now, ({ id, customerId }, outcome) => {
    const target = { user_id: id, customer_id: customerId };
    audit.note({ event: 'user.deleted', outcome, reason: 'not_in_directory', target, actor: null });
    if (outcome === 'success') log.info({ user_id: id }, 'pending user deletion completed');
  });
}

async function count(store: Store, now: number): Promise<void> {
  activeTokens.set(await store.tokens.countActive(now));
  pendingDeletions.set((await store.directory.listPendingDeletions()).length);
}

const DAY_MS = 86_400_000;
/** What the metric counts, by its label. */
const WITHIN = [
  ['1d', DAY_MS],
  ['7d', 7 * DAY_MS],
  ['30d', 30 * DAY_MS],
] as const;
/** Tokens that one step claims. */
const CLAIMED_AT_ONCE = 500;

/** Counts tokens that expire soon, and tells of each once in the audit log of one process of the fleet. */
export class ExpiringTokens {
  readonly #opened: Pick<OpenedStore, 'store' | 'audit'>;
  readonly #warnBefore: () => number | null;
  /** Those that are known to be told of, with the expiry that was told. */
  #reported = new Map<string, EpochMs>();

  /** @param warnBefore milliseconds (`tokens.warn_before`), as it is now; null: nothing is told */
  constructor(opened: Pick<OpenedStore, 'store' | 'audit'>, warnBefore: () => number | null) {
    this.#opened = opened;
    this.#warnBefore = warnBefore;
  }

  /** @throws StoreUnavailable when the store can't be asked; what is not told of yet is told of the next time */
  async look(now: EpochMs): Promise<void> {
    const warnBefore = this.#warnBefore();
    const farthest = Math.max(30 * DAY_MS, warnBefore ?? 0);
    const expiring = await this.#opened.store.tokens.listExpiring(now, now + farthest);
    for (const [within, ms] of WITHIN)
      expiringTokens.set({ within }, expiring.filter(({ expiresAt }) => expiresAt <= now + ms).length);
    if (warnBefore === null) return;
    const due = expiring.filter(({ expiresAt }) => expiresAt <= now + warnBefore);
    const fresh = due.filter(({ id, expiresAt }) => this.#reported.get(id) !== expiresAt).map(({ id }) => id);
    for (const some of partsOf(fresh, CLAIMED_AT_ONCE)) await this.#tell(some, now);
    this.#reported = new Map(due.map(({ id, expiresAt }) => [id, expiresAt]));
  }

  async #tell(ids: readonly string[], now: EpochMs): Promise<void> {
    const { store, audit } = this.#opened;
    for (const id of await store.tokens.claimWarnings(ids, now)) {
      const found = await store.tokens.get(id);
      if (found === undefined) continue;
      const owner = await store.directory.getUser(found.token.userId);
      audit.note({ ...tokenExpiringEvent(found, owner?.customerId ?? null), actor: null });
    }
  }
}
