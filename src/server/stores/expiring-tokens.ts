import { tokenExpiringEvent } from '../../accounts/token-audit-events.js';
import type { EpochMs } from '../../domain/time.js';
import { expiringTokens } from '../../observe/metrics/store.js';
import { partsOf } from '../../store/parts.js';
import type { OpenedStore } from './open-store.js';

const DAY_MS = 86_400_000;
/** What the metric counts, by its label. */
const WITHIN = [
  ['1d', DAY_MS],
  ['7d', 7 * DAY_MS],
  ['30d', 30 * DAY_MS],
] as const;
/** Tokens that one step claims. */
const BATCH = 500;

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
    for (const some of partsOf(fresh, BATCH)) await this.#tell(some, now);
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
