import type { Subject } from '../domain/credential.js';
import type { MaybePromise } from '../domain/maybe-promise.js';
import type { Refusal } from '../domain/refusal.js';
import type { RequestHead } from '../http/head.js';
import { guarded } from '../domain/guarded.js';
import { openStreams } from '../observe/metrics.js';
import { LinkedQueue, type Node } from '../domain/linked-queue.js';
import type { Ended } from '../store/endings.js';

/** A request or WebSocket that was allowed and is still in progress. */
export interface Stream {
  readonly head: RequestHead;
  /** Who it was let in for. */
  readonly subject: Subject | null;
  /** `performance.now()` when its request began. */
  readonly startedAt: number;
  /** Aborts it: its credential is no longer valid, or that could not be checked in time. */
  abort(reason: Refusal): void;
}

/** A stream that is watched, until it is given to {@link StreamRevalidator.end}. */
export type WatchedStream = Node<Stream>;

/** Authorizes a stream's head again; the refusal if it is no longer allowed. */
export type Recheck = (head: RequestHead, now: number) => MaybePromise<Refusal | undefined>;

/** How often the streams are looked through, at most and at least. */
const MAX_TICK_MS = 1_000;
const MIN_TICK_MS = 50;
const TICKS = 10;

/**
 * Rechecks open streams: a revoked token or a narrowed policy also ends the streams that it allowed before.
 *
 * Each stream is asked about when half of the interval has passed since it last held. A store that can't be asked is asked
 * again until the whole interval has passed; then the stream ends. So none lasts longer than the interval.
 *
 * What is known to have ended ({@link StreamRevalidator.ended}) ends at once.
 */
export class StreamRevalidator {
  /** By `performance.now()`. */
  readonly #streams = new LinkedQueue<Stream>();
  readonly #recent = new RecentEnds();
  readonly #asking = new Set<WatchedStream>();
  readonly #interval: () => number;
  readonly #recheck: Recheck;
  readonly #fault: (error: unknown) => void;
  #timer: NodeJS.Timeout;

  /**
   * @param interval milliseconds (`proxy.stream_recheck`), as it is now
   * @param recheck must look at the rules and records as they are now
   * @param fault called when a stream could not be aborted
   */
  constructor(interval: () => number, recheck: Recheck, fault: (error: unknown) => void) {
    this.#interval = interval;
    this.#recheck = recheck;
    this.#fault = fault;
    this.#timer = this.#schedule();
  }

  watch(stream: Stream): WatchedStream {
    const watched = this.#streams.add(stream, performance.now());
    // It ended between the look at the credential and now. Whoever watches it has yet to begin it.
    if (this.#recent.hasEndedSince(stream.subject, stream.startedAt))
      setImmediate(() => void (watched.isOver || this.#ask(watched)));
    return watched;
  }

  end(watched: WatchedStream): void {
    this.#streams.remove(watched);
  }

  /**
   * Ends the streams of what ended for good, and asks about those of what changed.
   *
   * @param ended null: anything may have ended
   * @param lasting whether to look at what becomes a stream later, too
   */
  ended(ended: Ended | null, lasting: boolean): void {
    if (ended !== null && lasting) this.#recent.note(ended, performance.now());
    for (const watched of this.#streams.heldBefore(Infinity)) {
      // The end of one may have ended it.
      if (watched.isOver) continue;
      const effect = ended === null ? 'changed' : effectOn(watched.member, ended);
      if (effect === 'over') this.#abort(watched, { refusal: 'unauthenticated' });
      else if (effect === 'changed') this.#ask(watched);
    }
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
    openStreams.set(this.#streams.size);
    const now = performance.now();
    const interval = this.#interval();
    for (const watched of this.#streams.heldBefore(now - interval / 2)) {
      // The end of one may have ended it.
      if (watched.isOver) continue;
      if (now - watched.heldAt >= interval) this.#abort(watched, { refusal: 'store_unavailable' });
      else if (!this.#asking.has(watched)) this.#ask(watched);
    }
  }

  #ask(watched: WatchedStream): void {
    const answered = (refusal: Refusal | undefined): void => {
      this.#asking.delete(watched);
      if (watched.isOver) return;
      if (refusal === undefined) this.#streams.renew(watched, performance.now());
      else this.#abort(watched, refusal);
    };
    // A fault is no answer; it is asked again at the next look, until the interval is over.
    const failed = (): void => void this.#asking.delete(watched);
    this.#asking.add(watched);
    try {
      const verdict = this.#recheck(watched.member.head, Date.now());
      if (verdict instanceof Promise) verdict.then(answered, failed);
      else answered(verdict);
    } catch {
      failed();
    }
  }

  #abort(watched: WatchedStream, reason: Refusal): void {
    this.end(watched);
    // The others are looked at all the same.
    guarded(() => watched.member.abort(reason), this.#fault)();
  }
}

function effectOn({ subject }: Stream, ended: Ended): 'over' | 'changed' | undefined {
  const effects = subject === null ? [] : keysOf(subject).map((key) => ended.get(key));
  // A legacy key that moves to another customer ends and is there again, by the same names.
  if (effects.includes('over')) return subject?.credential === 'legacy_key' ? 'changed' : 'over';
  return effects.find((effect) => effect !== undefined);
}

/** What was let in longer ago than this, in milliseconds, has got its answer, or is rechecked as all that lasts. */
const KEPT_MS = 300_000;
const MAX_KEPT = 10_000;

/** What ended lately: a request that was authorized before may become a stream only after. */
export class RecentEnds {
  /** `performance.now()` by what ended, the oldest first. */
  readonly #times = new Map<string, number>();
  /** When the newest ended: nearly every request began later, and then no name is looked up. */
  #latest = -Infinity;

  note(ended: Ended, now: number): void {
    this.#latest = now;
    for (const key of ended.keys()) {
      this.#times.delete(key);
      this.#times.set(key, now);
    }
    for (const [key, time] of this.#times) {
      if (now - time < KEPT_MS && this.#times.size <= MAX_KEPT) return;
      this.#times.delete(key);
    }
  }

  /** Whether something of a subject ended since a time. */
  hasEndedSince(subject: Subject | null, time: number): boolean {
    if (this.#latest < time || subject === null) return false;
    return keysOf(subject).some((key) => (this.#times.get(key) ?? -Infinity) >= time);
  }
}

/** How a subject is named when something of it ends. */
function keysOf(subject: Subject): string[] {
  const user = `user:${subject.user.id}`;
  if (subject.credential === 'session') return [`session:${subject.session.digest}`, user];
  // Neither the user nor the token of a JWT is a record of the store.
  if (subject.credential === 'jwt') return [];
  return [`token:${subject.token.id}`, `digest:${subject.token.digest}`, user];
}
