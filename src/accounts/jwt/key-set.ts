import {
  createLocalJWKSet,
  errors,
  type FlattenedJWSInput,
  type JWSHeaderParameters,
  type JWTVerifyGetKey,
} from 'jose';
import { Unavailable } from '../../domain/unavailable.js';
import type { KeySource } from './key-source.js';

/** From this age on keys are fetched again while those known go on serving. */
const REFRESH_MS = 5 * 60_000;
/** From this age on a request waits for newer keys, unless they can't be fetched. */
const MAX_AGE_MS = 10 * 60_000;
/** Time in which keys are fetched twice at most, however many unknown keys are named. */
const COOLDOWN_MS = 30_000;
/** Shortest time between a failed fetch and the next one. */
const RETRY_MS = 2_000;

/** Told how a fetch ended. @param error undefined when it succeeded */
export type FetchEnded = (error: unknown) => void;

/**
 * The public keys of an issuer: fetched when they are needed, and kept while they can't be fetched again.
 *
 * A cooldown allows two fetches that succeed: the second one finds a key that was added right after the first.
 */
export class KeySet {
  readonly #source: KeySource;
  readonly #ended: FetchEnded;
  readonly #clock: () => number;
  readonly #cooldown: number;
  #keys: ReturnType<typeof createLocalJWKSet> | undefined;
  #fetchedAt = -Infinity;
  #triedAt = -Infinity;
  #fetchedBefore = -Infinity;
  #isFailing = false;
  #fetching: Promise<void> | undefined;

  /**
   * @param clock milliseconds that only grow
   * @param cooldown milliseconds in which keys are fetched twice at most
   */
  constructor(
    source: KeySource,
    ended: FetchEnded,
    clock: () => number = () => performance.now(),
    cooldown = COOLDOWN_MS,
  ) {
    this.#source = source;
    this.#ended = ended;
    this.#clock = clock;
    this.#cooldown = cooldown;
  }

  /**
   * The key that a JWT names.
   *
   * @throws JOSEError when no key fits; Unavailable when that can't be known because the keys can't be fetched
   */
  readonly find: JWTVerifyGetKey = async (header, token) => {
    await this.#refresh();
    let found = await this.#lookUp(header, token);
    if (found === undefined && this.#mayFetch()) {
      await this.#fetch();
      found = await this.#lookUp(header, token);
    }
    if (found !== undefined) return found;
    throw this.#isFailing ? unavailable() : new errors.JWKSNoMatchingKey();
  };

  /** Has the keys fetched again at the next request, which waits for them; while that fails, those known go on. */
  expire(): void {
    this.#fetchedAt = -Infinity;
    this.#triedAt = -Infinity;
    this.#fetchedBefore = -Infinity;
    this.#isFailing = false;
  }

  async #refresh(): Promise<void> {
    const age = this.#clock() - this.#fetchedAt;
    if (age >= REFRESH_MS && this.#mayFetch()) void this.#fetch();
    const isNeeded = this.#keys === undefined || (age >= MAX_AGE_MS && !this.#isFailing);
    if (isNeeded) await this.#fetching;
    if (this.#keys === undefined) throw unavailable();
  }

  /** The key, or undefined when none fits. @throws JOSEError when several fit, or the one that fits is of no use */
  async #lookUp(header: JWSHeaderParameters, token: FlattenedJWSInput) {
    try {
      return await this.#keys?.(header, token);
    } catch (error) {
      if (error instanceof errors.JWKSNoMatchingKey) return undefined;
      throw error;
    }
  }

  #mayFetch(): boolean {
    if (this.#fetching !== undefined) return true;
    const now = this.#clock();
    return this.#isFailing ? now - this.#triedAt >= RETRY_MS : now - this.#fetchedBefore >= this.#cooldown;
  }

  /** Fetches the keys; whoever asks meanwhile waits for the same answer. It never rejects. */
  #fetch(): Promise<void> {
    this.#fetching ??= this.#fetchOnce().finally(() => (this.#fetching = undefined));
    return this.#fetching;
  }

  async #fetchOnce(): Promise<void> {
    this.#triedAt = this.#clock();
    try {
      this.#keys = createLocalJWKSet(await this.#source());
      this.#fetchedBefore = this.#fetchedAt;
      this.#fetchedAt = this.#clock();
      this.#isFailing = false;
      this.#ended(undefined);
    } catch (error) {
      this.#isFailing = true;
      this.#ended(error);
    }
  }
}

function unavailable(): Unavailable {
  return new Unavailable(
    { refusal: 'key_set_unavailable' },
    'the keys of an issuer of JWTs cannot be fetched',
  );
}
