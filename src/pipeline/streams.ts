import { performance } from 'node:perf_hooks';
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
  /** The subject that it was allowed for. */
  readonly subject: Subject | null;
  /** `performance.now()` when its request began. */
  readonly startedAt: number;
  /** Aborts the stream, because it is no longer allowed or could not be rechecked in time. */
  abort(reason: Refusal): void;
}

/** A watched stream. Pass it to {@link StreamRevalidator.end} when the stream ends. */
export type WatchedStream = Node<Stream>;

/** Re-authorizes a stream's head. Returns the refusal if it is no longer allowed. */
export type Recheck = (head: RequestHead, now: number) => MaybePromise<Refusal | undefined>;

/** Bounds of the scan interval, milliseconds. */
const MAX_TICK_MS = 1_000;
const MIN_TICK_MS = 50;
const TICKS = 10;

/**
 * Re-authorizes open streams, so that a revoked token or a narrowed policy also ends streams that
 * were already allowed.
 *
 * Each stream is rechecked once half of the interval has passed since its last success. While the
 * store cannot be reached, the check is retried until the whole interval has passed; then the
 * stream is aborted. So a stream outlives its permission by at most one interval.
 *
 * Streams of a known revocation ({@link StreamRevalidator.ended}) are aborted at once.
 */
export class StreamRevalidator {
  /** Ordered by the time of the last success, on the clock of `performance.now()`. */
  readonly #streams = new LinkedQueue<Stream>();
  readonly #recent = new RecentEnds();
  readonly #rechecking = new Set<WatchedStream>();
  readonly #interval: () => number;
  readonly #recheck: Recheck;
  readonly #fault: (error: unknown) => void;
  #timer: NodeJS.Timeout;

  /**
   * @param interval returns the current `proxy.stream_recheck`, milliseconds
   * @param recheck must use the current rules and records
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
    // Revoked between the credential check and now. The caller has yet to start the stream.
    if (this.#recent.hasEndedSince(stream.subject, stream.startedAt))
      setImmediate(() => void (watched.isRemoved || this.#startRecheck(watched)));
    return watched;
  }

  end(watched: WatchedStream): void {
    this.#streams.remove(watched);
  }

  /**
   * Aborts the streams of ended credentials and users, and rechecks those of changed ones.
   *
   * @param ended null when anything may have ended
   * @param includesFutureStreams whether requests that become streams later are affected too
   */
  ended(ended: Ended | null, includesFutureStreams: boolean): void {
    if (ended !== null && includesFutureStreams) this.#recent.note(ended, performance.now());
    for (const watched of this.#streams.renewedBefore(Infinity)) {
      // Aborting another stream may have ended this one.
      if (watched.isRemoved) continue;
      const effect = ended === null ? 'changed' : effectOn(watched.member, ended);
      if (effect === 'ended') this.#abort(watched, { refusal: 'unauthenticated' });
      else if (effect === 'changed') this.#startRecheck(watched);
    }
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
    openStreams.set(this.#streams.size);
    const now = performance.now();
    const interval = this.#interval();
    for (const watched of this.#streams.renewedBefore(now - interval / 2)) {
      // Aborting another stream may have ended this one.
      if (watched.isRemoved) continue;
      if (now - watched.renewedAt >= interval) this.#abort(watched, { refusal: 'store_unavailable' });
      else if (!this.#rechecking.has(watched)) this.#startRecheck(watched);
    }
  }

  #startRecheck(watched: WatchedStream): void {
    const onVerdict = (refusal: Refusal | undefined): void => {
      this.#rechecking.delete(watched);
      if (watched.isRemoved) return;
      if (refusal === undefined) this.#streams.renew(watched, performance.now());
      else this.#abort(watched, refusal);
    };
    // A fault is not a verdict. The next scan retries, until the interval has passed.
    const onFailure = (): void => void this.#rechecking.delete(watched);
    this.#rechecking.add(watched);
    try {
      const verdict = this.#recheck(watched.member.head, Date.now());
      if (verdict instanceof Promise) verdict.then(onVerdict, onFailure);
      else onVerdict(verdict);
    } catch {
      onFailure();
    }
  }

  #abort(watched: WatchedStream, reason: Refusal): void {
    this.end(watched);
    // The other streams must be handled even if this one throws.
    guarded(() => watched.member.abort(reason), this.#fault)();
  }
}

function effectOn({ subject }: Stream, ended: Ended): 'ended' | 'changed' | undefined {
  const effects = subject === null ? [] : keysOf(subject).map((key) => ended.get(key));
  // A legacy key that moves to another customer ends and reappears under the same names.
  if (effects.includes('ended')) return subject?.credential === 'legacy_key' ? 'changed' : 'ended';
  return effects.find((effect) => effect !== undefined);
}

/**
 * How long ends are remembered, milliseconds. Anything allowed earlier has been answered or is
 * rechecked as a stream.
 */
const KEPT_MS = 300_000;
const MAX_KEPT = 10_000;

/** Recent ends. A request that was authorized before an end may become a stream only after it. */
export class RecentEnds {
  /** `performance.now()` by what ended, oldest first. */
  readonly #times = new Map<string, number>();
  /** Time of the newest end. Nearly every request began later, and then no look-up is needed. */
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

  /** Whether anything that the subject depends on has ended since a time. */
  hasEndedSince(subject: Subject | null, time: number): boolean {
    if (this.#latest < time || subject === null) return false;
    return keysOf(subject).some((key) => (this.#times.get(key) ?? -Infinity) >= time);
  }
}

/** The keys under which an end is reported that affects a subject. */
function keysOf(subject: Subject): string[] {
  const user = `user:${subject.user.id}`;
  if (subject.credential === 'session') return [`session:${subject.session.digest}`, user];
  // A JWT's user and token are not records in the store.
  if (subject.credential === 'jwt') return [];
  return [`token:${subject.token.id}`, `digest:${subject.token.digest}`, user];
}
