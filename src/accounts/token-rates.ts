import { LRUCache } from 'lru-cache';
import { parseRate, type Rate, takeFrom } from '../domain/token.js';
import { Unavailable } from '../domain/refusal.js';
import type { UsageStore } from '../store/core/usage.js';
import { upTo } from '../util/collections.js';
import { type EpochMs, HOUR_MS } from '../util/time.js';

/** As a share of a token's rate. */
const LARGEST_LEASE = 1 / 50;
/** A lease used up within this time, in milliseconds, is followed by one twice as large. */
const LEASE_LASTS_MS = 100;
/** After a refused lease, unless the store names a longer wait. */
const SHORTEST_WAIT_MS = 10;
/** While the store is unavailable. */
const RETRY_MS = 1_000;
/** Evicted tokens lose their leased requests. */
const MAX_TOKENS = 20_000;

/** Times are from `performance.now()`. */
interface Bucket {
  readonly rate: Rate;
  readonly largest: number;
  left: number;
  /** Of the next lease. */
  size: number;
  leasedAt: number;
  waiting: number;
  refusedUntil: number;
  /** The store is not asked before this time, and {@link own} decides. */
  fallbackUntil: number;
  /** Of this process's own bucket; null while the store is available. */
  own: number | null;
  leasing: Promise<void> | undefined;
}

/**
 * Limits the rate of tokens across the fleet. A token's bucket is in the store; each process leases requests
 * from it in batches. It may hold a fiftieth of the rate's count at most, which is what the fleet can admit
 * too many. While the store is unavailable, each process applies the rate on its own.
 */
export class TokenRates {
  readonly #usage: Pick<UsageStore, 'leaseRate'>;
  readonly #onFallback: (error: unknown) => void;
  readonly #buckets = new LRUCache<string, Bucket>(upTo(MAX_TOKENS));

  constructor(usage: Pick<UsageStore, 'leaseRate'>, onFallback: (error: unknown) => void) {
    this.#usage = usage;
    this.#onFallback = onFallback;
  }

  /** @returns 0, or the milliseconds after which to retry */
  take(tokenId: string, text: string): number | Promise<number> {
    const bucket = this.#bucketOf(tokenId, text);
    return takeKnown(bucket) ?? this.#takeLeased(tokenId, bucket);
  }

  #bucketOf(tokenId: string, text: string): Bucket {
    // Tokens that share a bucket may have different rates. Each keeps its own share, or whoever alternates
    // between them would find a new one at every request.
    const key = `${tokenId} ${text}`;
    const known = this.#buckets.get(key);
    if (known !== undefined) return known;
    const bucket = newBucket(text);
    this.#buckets.set(key, bucket);
    return bucket;
  }

  async #takeLeased(tokenId: string, bucket: Bucket): Promise<number> {
    bucket.waiting += 1;
    try {
      for (;;) {
        await (bucket.leasing ??= this.#lease(tokenId, bucket));
        const wait = takeKnown(bucket);
        if (wait !== undefined) return wait;
      }
    } finally {
      bucket.waiting -= 1;
    }
  }

  async #lease(tokenId: string, bucket: Bucket): Promise<void> {
    try {
      const { granted, retryAfter } = await this.#usage.leaseRate(
        tokenId,
        bucket.rate,
        Math.max(bucket.size, bucket.waiting),
      );
      const now = performance.now();
      bucket.own = null;
      bucket.left += granted;
      if (granted === 0) bucket.refusedUntil = now + Math.max(SHORTEST_WAIT_MS, retryAfter);
      resize(bucket, now);
    } catch (error) {
      if (!(error instanceof Unavailable)) throw error;
      this.#onFallback(error);
      bucket.fallbackUntil = performance.now() + RETRY_MS;
    } finally {
      bucket.leasing = undefined;
    }
  }
}

function newBucket(text: string): Bucket {
  const rate = parseRate(text);
  if (rate === undefined) throw new Error(`the rate ${text} is not valid`);
  return {
    rate,
    largest: Math.max(1, Math.floor(rate.count * LARGEST_LEASE)),
    left: 0,
    size: 1,
    leasedAt: -Infinity,
    waiting: 0,
    refusedUntil: -Infinity,
    fallbackUntil: -Infinity,
    own: null,
    leasing: undefined,
  };
}

function resize(bucket: Bucket, now: number): void {
  const fast = now - bucket.leasedAt < LEASE_LASTS_MS;
  bucket.size = fast ? Math.min(bucket.size * 2, bucket.largest) : Math.max(1, bucket.size >> 1);
  bucket.leasedAt = now;
}

/** @returns 0, or the milliseconds after which to retry; undefined if the store must be asked */
function takeKnown(bucket: Bucket): number | undefined {
  if (bucket.left > 0) {
    bucket.left -= 1;
    return 0;
  }
  const now = performance.now();
  if (now < bucket.fallbackUntil) return takeLocally(bucket);
  if (now < bucket.refusedUntil) return bucket.refusedUntil - now;
  return undefined;
}

/** The own bucket initially contains one lease. */
function takeLocally(bucket: Bucket): number {
  const { rate, largest } = bucket;
  const now = performance.now();
  const initialState = bucket.own ?? now + (rate.per * (rate.count - largest)) / rate.count;
  const { granted, state, retryAfter } = takeFrom(initialState, rate, 1, now);
  bucket.own = state;
  return granted === 1 ? 0 : retryAfter;
}

export interface WritesLeft {
  /** Negative beyond the limit. */
  readonly remaining: number;
  readonly resetAt: EpochMs;
}

export type WriteLimit = (userId: string, now: EpochMs) => Promise<WritesLeft>;

/** Counts each user's writes per clock hour, across the fleet (`rate_limit.writes_per_hour`). */
export function createWriteLimit(usage: Pick<UsageStore, 'countWrite'>, perHour: number): WriteLimit {
  return async (userId, now) => {
    const hour = Math.floor(now / HOUR_MS) * HOUR_MS;
    const count = await usage.countWrite(userId, hour);
    return { remaining: perHour - count, resetAt: hour + HOUR_MS };
  };
}
