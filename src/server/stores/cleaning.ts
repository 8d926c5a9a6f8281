import { UNDECLARED } from '../../accounts/directory-differences.js';
import { deletePending } from '../../accounts/pending-deletions.js';
import type { Config } from '../../config/schema/config.js';
import type { Log } from '../../observe/log.js';
import { storeMetrics } from '../../observe/metrics.js';
import { removalTime, type Store } from '../../store/core/store.js';
import type { OpenedStore } from './open-store.js';
import { reportEndedOverlaps } from '../../accounts/token-rotations.js';
import { tokenExpiringEvent, userDeletedEvent } from '../../accounts/audit-events.js';
import type { EpochMs } from '../../util/time.js';
import { partsOf } from '../../util/collections.js';

const INTERVAL_MS = 60_000;
/** Interval at which tokens are scanned; longer where scans would take more than 1 % of the time. */
const SCAN_MS = 5_000;
const SCAN_SHARE = 100;
const SETTLE_MS = 5_000;
const BATCH = 1_000;
/** How long an expired token is kept, so that its holder learns why it is refused. */
const KEEP_EXPIRED_TOKENS_MS = 30 * 24 * 3_600_000;

type CleaningSettings = Pick<Config['tokens'], 'last_seen_interval' | 'warn_before'>;

/**
 * Removes unusable records in the background, reports what expired or is about to, and counts the rest, in
 * one process for all.
 * @returns a function that stops it
 */
export function startCleaning(opened: OpenedStore, log: Log, settings: () => CleaningSettings): () => void {
  const { store } = opened;
  const scanExpiring = createExpiryScan(opened, () => settings().warn_before);
  // If the store is not yet available, the first cleaning counts.
  count(store, Date.now()).catch(() => undefined);
  const cleaning = setInterval(() => {
    clean(opened, log).catch((error: unknown) => log.warn({ err: error }, 'expired records not removed'));
  }, INTERVAL_MS).unref();
  const stopScanning = startScanning(
    async () => scan(opened, scanExpiring, settings().last_seen_interval),
    (error) => log.warn({ err: error }, 'expired tokens not reported; retrying'),
  );
  return () => {
    clearInterval(cleaning);
    stopScanning();
  };
}

/** After a failure it retries in a minute; the first failure is not reported. */
function startScanning(scan: () => Promise<void>, failed: (error: unknown) => void): () => void {
  let timer: NodeJS.Timeout | undefined;
  let stopped = false;
  const run = async (isFirst: boolean): Promise<void> => {
    const began = performance.now();
    let wait = INTERVAL_MS;
    try {
      await scan();
      wait = Math.min(INTERVAL_MS, Math.max(SCAN_MS, (performance.now() - began) * SCAN_SHARE));
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
  const now = await removalTime(store.maintenance);
  while ((await store.maintenance.removeExpired(now, now - KEEP_EXPIRED_TOKENS_MS, BATCH)) === BATCH);
  await deleteUsers(opened, log, now);
  await count(store, now);
}

async function scan(
  opened: OpenedStore,
  scanExpiring: (now: EpochMs) => Promise<void>,
  lastSeenInterval: number,
): Promise<void> {
  const { tokens, maintenance } = opened.store;
  const now = await removalTime(maintenance);
  storeMetrics.tokensInOverlap.set(await tokens.countInOverlap(now));
  await scanExpiring(now);
  // What is taken is reported only once.
  opened.audit.ensureWritable();
  await reportEndedOverlaps(tokens, lastSeenInterval + SETTLE_MS, now, (event) =>
    opened.audit.note({ ...event, actor: null }),
  );
}

async function deleteUsers({ store, audit }: OpenedStore, log: Log, now: number): Promise<void> {
  await deletePending(store, now, (user, outcome) => {
    audit.note({ ...userDeletedEvent(user, UNDECLARED), outcome, actor: null });
    if (outcome === 'success') log.info({ user_id: user.id }, 'pending user deletion completed');
  });
}

async function count(store: Store, now: number): Promise<void> {
  storeMetrics.activeTokens.set(await store.tokens.countActive(now));
  storeMetrics.pendingDeletions.set((await store.directory.listPendingDeletions()).length);
}

const DAY_MS = 86_400_000;
const WITHIN = [
  ['1d', DAY_MS],
  ['7d', 7 * DAY_MS],
  ['30d', 30 * DAY_MS],
] as const;
const CLAIMED_AT_ONCE = 500;

/**
 * Counts tokens that expire soon, and reports each once, in the audit log of one process of the fleet.
 * @param warnBefore returns the current `tokens.warn_before`, milliseconds; null disables reports
 * @returns the scan. It throws StoreUnavailable; the next one reports what could not be reported
 */
export function createExpiryScan(
  { store, audit }: Pick<OpenedStore, 'store' | 'audit'>,
  warnBefore: () => number | null,
): (now: EpochMs) => Promise<void> {
  /** Tokens known to be reported, with the reported expiry. */
  let reported = new Map<string, EpochMs>();
  /** Claimed tokens whose report failed. Nobody else reports them. */
  const unreported = new Set<string>();
  const report = async (): Promise<void> => {
    for (const id of unreported) {
      const found = await store.tokens.get(id);
      const owner = found && (await store.directory.getUser(found.token.userId));
      if (found !== undefined)
        audit.note({ ...tokenExpiringEvent(found, owner?.customerId ?? null), actor: null });
      unreported.delete(id);
    }
  };
  return async (now) => {
    const before = warnBefore();
    const expiring = await store.tokens.listExpiring(now, now + Math.max(30 * DAY_MS, before ?? 0));
    for (const [within, ms] of WITHIN)
      storeMetrics.expiringTokens.set(
        { within },
        expiring.filter(({ expiresAt }) => expiresAt <= now + ms).length,
      );
    if (before === null) return;
    const due = expiring.filter(({ expiresAt }) => expiresAt <= now + before);
    const fresh = due.filter(({ id, expiresAt }) => reported.get(id) !== expiresAt).map(({ id }) => id);
    await report();
    for (const some of partsOf(fresh, CLAIMED_AT_ONCE)) {
      for (const id of await store.tokens.claimWarnings(some)) unreported.add(id);
      await report();
    }
    reported = new Map(due.map(({ id, expiresAt }) => [id, expiresAt]));
  };
}
