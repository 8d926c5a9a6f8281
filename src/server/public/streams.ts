import type { Awaitable } from '../../domain/awaitable.js';
import type { Refusal } from '../../domain/refusal.js';
import type { RequestHead } from '../../http/head.js';
import { setStreams } from '../../observe/metrics.js';

/** A request or WebSocket that was let in and is still under way. */
export interface Stream {
  readonly head: RequestHead;
  /** Breaks it off: its credential no longer holds, or that could not be asked in time. */
  cut(reason: Refusal): void;
}

/** Judges a stream's head again; the refusal when it would not be let in any more. */
export type Recheck = (head: RequestHead, now: number) => Awaitable<Refusal | undefined>;

/** How often the streams are looked through, at most and at least. */
const MAX_TICK_MS = 1_000;
const MIN_TICK_MS = 50;
const TICKS = 10;

/**
 * Watches what lasts: a token that is revoked, or a policy that is narrowed, also ends the streams that were let in before.
 *
 * Each stream is asked about when half of the interval has passed since it last held. A store that can't be asked is asked
 * again until the whole interval has passed; then the stream ends. So none lasts longer than the interval.
 */
export class Streams {
  /** When each last held, in the order of that time: `performance.now()`. */
  readonly #heldAt = new Map<Stream, number>();
  readonly #asking = new Set<Stream>();
  readonly #interval: () => number;
  readonly #recheck: Recheck;
  #timer: NodeJS.Timeout;

  /**
   * @param interval milliseconds (`proxy.stream_recheck`), as it is now
   * @param recheck must look at the rules and records as they are now
   */
  constructor(interval: () => number, recheck: Recheck) {
    this.#interval = interval;
    this.#recheck = recheck;
    this.#timer = this.#schedule();
  }

  add(stream: Stream): void {
    this.#heldAt.set(stream, performance.now());
  }

  delete(stream: Stream): void {
    this.#heldAt.delete(stream);
  }

  close(): void {
    clearTimeout(this.#timer);
  }

  #schedule(): NodeJS.Timeout {
    const tick = Math.max(MIN_TICK_MS, Math.min(MAX_TICK_MS, this.#interval() / TICKS));
    return setTimeout(() => {
      this.#look();
      this.#timer = this.#schedule();
    }, tick).unref();
  }

  #look(): void {
    setStreams(this.#heldAt.size);
    const now = performance.now();
    const interval = this.#interval();
    // The ones behind the first that is not due yet held later.
    for (const [stream, heldAt] of this.#heldAt) {
      if (now - heldAt < interval / 2) break;
      if (now - heldAt >= interval) this.#end(stream, { refusal: 'store_unavailable' });
      else if (!this.#asking.has(stream)) this.#ask(stream);
    }
  }

  #ask(stream: Stream): void {
    const answered = (refusal: Refusal | undefined): void => {
      this.#asking.delete(stream);
      if (!this.#heldAt.has(stream)) return;
      if (refusal !== undefined) {
        this.#end(stream, refusal);
        return;
      }
      // Put behind all others.
      this.#heldAt.delete(stream);
      this.#heldAt.set(stream, performance.now());
    };
    // A fault is no answer; the next look asks again until the interval is over.
    const failed = (): void => void this.#asking.delete(stream);
    this.#asking.add(stream);
    try {
      const verdict = this.#recheck(stream.head, Date.now());
      if (verdict instanceof Promise) verdict.then(answered, failed);
      else answered(verdict);
    } catch {
      failed();
    }
  }

  #end(stream: Stream, reason: Refusal): void {
    this.#heldAt.delete(stream);
    stream.cut(reason);
  }
}
