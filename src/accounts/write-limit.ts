import { type EpochMs, HOUR_MS } from '../domain/time.js';
import type { UsageStore } from '../store/usage-store.js';

/** What is left of a user's writes in this clock hour. */
export interface WritesLeft {
  /** Below 0 when the limit is passed. */
  readonly remaining: number;
  /** When the next hour begins. */
  readonly resetAt: EpochMs;
}

/** Counts the writes of each user in a clock hour, for all that share the store (`rate_limit.writes_per_hour`). */
export class WriteLimit {
  readonly #usage: Pick<UsageStore, 'countWrite'>;
  readonly #perHour: number;

  constructor(usage: Pick<UsageStore, 'countWrite'>, perHour: number) {
    this.#usage = usage;
    this.#perHour = perHour;
  }

  async count(userId: string, now: EpochMs): Promise<WritesLeft> {
    const hour = Math.floor(now / HOUR_MS) * HOUR_MS;
    const count = await this.#usage.countWrite(userId, hour);
    return { remaining: this.#perHour - count, resetAt: hour + HOUR_MS };
  }
}
