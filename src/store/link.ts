/** The link over which a networked store notifies a process of changes, so that it may cache. */

import { EventEmitter } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import { keyOf, QUESTION } from './core/kinds.js';
import { withoutPrefix } from './endings.js';

/**
 * How often a link is checked, in milliseconds, and for how long after the question of such a check
 * the cache is trusted. An answer that takes longer does not count.
 */
export const HEARTBEAT_MS = 250;
export const COVER_MS = 1_000;
const FIRST_RETRY_MS = 50;
const MAX_RETRY_MS = 250;
/** A link that is not up after this time, in milliseconds, is reported. */
const NOT_UP_MS = 5_000;

const QUESTION_KEY = keyOf(QUESTION, '');

/** In the order in which they happen. */
interface FeedEvents {
  /**
   * Every change is received from now on. What was read before may have changed unnoticed. Until that
   * `performance.now()` this is certain.
   */
  readonly up: [until: number];
  /** Changes are still received; as `up`. */
  readonly alive: [until: number];
  /** Changes are no longer received. */
  readonly lost: [reason: string];
  /** An attempt to set up the link failed. */
  readonly failed: [];
  /** The link has been down for some seconds; emitted once until it is up, with the cause of the latest attempt. */
  readonly notUp: [cause: Error];
  /** How far the clock of the store is ahead of this one, in milliseconds; measured regularly. */
  readonly skew: [ms: number];
  /** What ended, as named in `revocations.ts`. */
  readonly ended: [names: readonly string[]];
  /** Keys of changed records, without the prefix of the store; null: anything may have changed. */
  readonly changed: [keys: readonly string[] | null];
  /** A question to all processes. Everything that ended before it has been emitted. */
  readonly asked: [question: string];
}

/** What a process hears of a networked store. Subscribers are called in the order in which they subscribed. */
export class Feed extends EventEmitter<FeedEvents> {
  readonly #announced: string;

  /** @param announced prefix of the names of what ended, among those of what changed */
  constructor(announced: string) {
    super();
    this.#announced = announced;
  }

  /** @param names as the store sends them, without its prefix; null: anything may have changed */
  receive(names: readonly string[] | null): void {
    const ended = names === null ? [] : withoutPrefix(this.#announced, names);
    if (ended.length > 0) this.emit('ended', ended);
    const questions = names === null ? [] : withoutPrefix(QUESTION_KEY, names);
    if (names === null || questions.length < names.length) this.emit('changed', names);
    for (const question of questions) this.emit('asked', question);
  }
}

/** One attempt to hold a link. */
export interface Attempt {
  /** To be called when the link is up; as the event `up`. */
  readonly up: (until: number) => void;
  /** Gives the link up. */
  readonly abort: (reason: string) => void;
  /** Resolves to the reason when it was given up. */
  readonly lost: Promise<string>;
}

/** Sets a link up again whenever it is lost. */
export class Link {
  readonly #hold: (attempt: Attempt) => Promise<unknown>;
  readonly #feed: Feed;
  #closed = false;
  #abort: (reason: string) => void = () => undefined;

  /** @param hold sets the link up and releases it when it is lost, or throws */
  constructor(hold: (attempt: Attempt) => Promise<unknown>, feed: Feed) {
    this.#hold = hold;
    this.#feed = feed;
    void this.#run();
  }

  close(): void {
    this.#closed = true;
    this.#abort('closed');
  }

  async #run(): Promise<void> {
    let downSince = performance.now();
    let reported = false;
    for (let failures = 0; !this.#closed; failures += 1) {
      let isUp = false;
      const cause = await this.#attempt((until) => {
        isUp = true;
        failures = 0;
        this.#feed.emit('up', until);
      });
      if (isUp) {
        this.#feed.emit('lost', cause.message);
        downSince = performance.now();
        reported = false;
      } else if (!this.#closed) {
        this.#feed.emit('failed');
        const isLong = performance.now() - downSince >= NOT_UP_MS;
        if (isLong && !reported) this.#feed.emit('notUp', cause);
        reported = isLong;
      }
      await sleep(Math.min(MAX_RETRY_MS, FIRST_RETRY_MS * 2 ** failures), undefined, { ref: false });
    }
  }

  /** Resolves when the link is lost, or could not be set up. */
  async #attempt(up: (until: number) => void): Promise<Error> {
    const lost = new Promise<string>((resolve) => (this.#abort = resolve));
    return this.#hold({ up, abort: this.#abort, lost }).then(
      async () => new Error(await lost),
      (error: unknown) => (error instanceof Error ? error : new Error(String(error))),
    );
  }
}
