import { performance } from 'node:perf_hooks';
import type { Subject } from '../domain/credential.js';
import { guarded, type MaybePromise } from '../util/async.js';
import type { Refusal } from '../domain/refusal.js';
import type { RequestHead } from '../http/head.js';
import { metrics } from '../observe/metrics.js';
import { LinkedQueue, type Node } from '../util/collections.js';
import { type Ended, keysOf } from '../store/endings.js';
import type { RequestRecord } from './record.js';

/** A request or WebSocket that was allowed and is still in progress. */
export interface Stream {
  readonly record: Pick<RequestRecord, 'head' | 'subject'>;
  abort(reason: Refusal): void;
}

/** A watched stream. Pass it to {@link StreamRevalidator.end} when the stream ends. */
export type WatchedStream = Node<Stream>;

interface Acting {
  readonly subject: Subject;
  readonly done: Promise<unknown>;
  hasEnded: boolean;
}

/** Re-authorizes a stream's head. Returns the refusal if it is no longer allowed. */
export type Recheck = (head: RequestHead, now: number) => MaybePromise<Refusal | undefined>;

const MAX_TICK_MS = 1_000;
const MIN_TICK_MS = 50;
const TICKS = 10;

/**
 * Re-authorizes open streams, so that a revoked token or a narrowed policy also ends them: each one half of
 * the interval after its last success, and again while the store cannot be reached, until the whole interval
 * has passed and it is aborted. So a stream outlives its permission by at most one interval.
 */
export class StreamRevalidator {
  /** Ordered by the time of the last success, on the clock of `performance.now()`. */
  readonly #streams = new LinkedQueue<Stream>();
  readonly #rechecking = new Set<WatchedStream>();
  /** Streams with a recheck since their last success. */
  readonly #unconfirmed = new WeakSet<WatchedStream>();
  readonly #acting = new Set<Acting>();
  readonly #interval: () => number;
  readonly #recheck: Recheck;
  readonly #fault: (error: unknown) => void;
  #timer: NodeJS.Timeout;

  /**
   * @param interval returns the current `proxy.stream_recheck`, milliseconds
   * @param recheck must use the current rules and records
   */
  constructor(interval: () => number, recheck: Recheck, fault: (error: unknown) => void) {
    this.#interval = interval;
    this.#recheck = recheck;
    this.#fault = fault;
    this.#timer = this.#schedule();
  }

  watch(stream: Stream): WatchedStream {
    return this.#streams.add(stream, performance.now());
  }

  end(watched: WatchedStream | undefined): void {
    if (watched !== undefined) this.#streams.remove(watched);
  }

  /** Runs an endpoint. It is not aborted, but {@link StreamRevalidator.settled} waits for it. */
  async act<T>(subject: Subject | null, work: () => Promise<T>): Promise<T> {
    if (subject === null) return work();
    const done = work();
    const acting: Acting = { subject, done, hasEnded: false };
    this.#acting.add(acting);
    try {
      return await done;
    } finally {
      this.#acting.delete(acting);
    }
  }

  /** Resolves when nothing acts any more for a credential whose end was reported. */
  async settled(): Promise<void> {
    const ended = [...this.#acting].filter(({ hasEnded }) => hasEnded);
    await Promise.allSettled(ended.map(({ done }) => done));
  }

  /**
   * Aborts the streams of ended credentials and users, and rechecks those of changed ones.
   * @param ended null when anything may have ended
   */
  ended(ended: Ended | null): void {
    const changed: WatchedStream[] = [];
    for (const watched of this.#streams.renewedBefore(Infinity)) {
      // Aborting another stream may have ended this one.
      if (watched.isRemoved) continue;
      const effect = ended === null ? 'changed' : effectOn(watched.member.record, ended);
      if (effect === 'ended') this.#abort(watched, { refusal: 'unauthenticated' });
      else if (effect === 'changed') changed.push(watched);
    }
    void this.#recheckTogether(changed);
    for (const acting of this.#acting)
      if (ended === null || effectOn(acting, ended) !== undefined) acting.hasEnded = true;
  }

  close(): void {
    clearTimeout(this.#timer);
  }

  #schedule(): NodeJS.Timeout {
    const tick = Math.max(MIN_TICK_MS, Math.min(MAX_TICK_MS, this.#interval() / TICKS));
    return setTimeout(() => {
      this.#scan();
      this.#timer = this.#schedule();
    }, tick).unref();
  }

  #scan(): void {
    metrics.openStreams.set(this.#streams.size);
    const now = performance.now();
    const interval = this.#interval();
    for (const watched of this.#streams.renewedBefore(now - interval / 2)) {
      // Aborting another stream may have ended this one.
      if (watched.isRemoved) continue;
      if (now - watched.renewedAt >= interval && this.#unconfirmed.has(watched))
        this.#abort(watched, { refusal: 'store_unavailable' });
      else if (!this.#rechecking.has(watched)) void this.#recheckTogether([watched]);
    }
  }

  /**
   * Aborts those that are refused together: one may wait for the connection of another, and must not get it.
   */
  async #recheckTogether(streams: readonly WatchedStream[]): Promise<void> {
    const refusals = await Promise.all(streams.map(async (watched) => this.#recheckOne(watched)));
    for (const [i, refusal] of refusals.entries())
      if (refusal !== undefined) this.#abort(streams[i] as WatchedStream, refusal);
  }

  /** A fault is not a verdict. The next scan retries, until the interval has passed. */
  async #recheckOne(watched: WatchedStream): Promise<Refusal | undefined> {
    this.#rechecking.add(watched);
    this.#unconfirmed.add(watched);
    try {
      const refusal = await this.#recheck(watched.member.record.head as RequestHead, Date.now());
      if (refusal !== undefined) return refusal;
      this.#unconfirmed.delete(watched);
      this.#streams.renew(watched, performance.now());
    } catch {
      // See above.
    } finally {
      this.#rechecking.delete(watched);
    }
    return undefined;
  }

  #abort(watched: WatchedStream, reason: Refusal): void {
    if (watched.isRemoved) return;
    this.end(watched);
    // The other streams must be handled even if this one throws.
    guarded(() => watched.member.abort(reason), this.#fault)();
  }
}

function effectOn(
  { subject }: Pick<RequestRecord, 'subject'>,
  ended: Ended,
): 'ended' | 'changed' | undefined {
  const effects = subject === null ? [] : keysOf(subject).map((key) => ended.get(key));
  // A legacy key that moves to another customer ends and reappears under the same names.
  if (effects.includes('ended')) return subject?.credential === 'legacy_key' ? 'changed' : 'ended';
  return effects.find((effect) => effect !== undefined);
}
