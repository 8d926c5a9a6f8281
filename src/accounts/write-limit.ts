import { type EpochMs, HOUR_MS } from '../util/time.js';
import type { UsageStore } from '../store/core/usage.js';

export interface WritesLeft {
  /** Negative beyond the limit. */
  readonly remaining: number;
  readonly resetAt: EpochMs;
}

/** Counts each user's writes per clock hour, across the fleet (`rate_limit.writes_per_hour`). */
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
