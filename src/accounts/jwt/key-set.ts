import {
  createLocalJWKSet,
  errors,
  type FlattenedJWSInput,
  type JWSHeaderParameters,
  type JWTVerifyGetKey,
} from 'jose';
import { Unavailable } from '../../domain/unavailable.js';
import { printable } from '../../observe/printable.js';
import type { KeySource } from './key-source.js';

/** Age in milliseconds from which keys are refreshed in the background. */
const REFRESH_MS = 5 * 60_000;
/** Age in milliseconds from which a request waits for newer keys, unless they cannot be fetched. */
const MAX_AGE_MS = 10 * 60_000;
/** Period in milliseconds with at most two fetches, however many unknown keys are named. */
const COOLDOWN_MS = 30_000;
/** Minimum milliseconds between a failed fetch and the next one. */
const RETRY_MS = 2_000;

/**
 * Called with the result of a fetch.
 *
 * @param error undefined if it succeeded
 */
export type OnFetch = (error: unknown) => void;

/**
 * The public keys of an issuer, fetched on demand.
 *
 * Known keys stay in use while they cannot be fetched again. The cooldown allows two successful
 * fetches: the second one finds a key that was added just after the first.
 */
export class KeySet {
  readonly #source: KeySource;
  readonly #onFetch: OnFetch;
  readonly #clock: () => number;
  readonly #cooldown: number;
  #keys: ReturnType<typeof createLocalJWKSet> | undefined;
  #fetchedAt = -Infinity;
  #triedAt = -Infinity;
  #previousFetchAt = -Infinity;
  /** Why the last fetch failed; undefined if it succeeded. */
  #failure: Error | undefined;
  #fetching: Promise<void> | undefined;

  /**
   * @param clock a monotonic clock, in milliseconds
   * @param cooldown period in milliseconds with at most two fetches
   */
  constructor(
    source: KeySource,
    onFetch: OnFetch,
    clock: () => number = () => performance.now(),
    cooldown = COOLDOWN_MS,
  ) {
    this.#source = source;
    this.#onFetch = onFetch;
    this.#clock = clock;
    this.#cooldown = cooldown;
  }

  /**
   * Returns the key that a JWT names.
   *
   * @throws JOSEError if no key matches; Unavailable if the keys cannot be fetched, so that this is
   *   unknown
   */
  readonly find: JWTVerifyGetKey = async (header, token) => {
    await this.#refresh();
    let found = await this.#lookUp(header, token);
    if (found === undefined && this.#mayFetch()) {
      await this.#fetch();
      found = await this.#lookUp(header, token);
    }
    if (found !== undefined) return found;
    throw this.#failure === undefined ? new errors.JWKSNoMatchingKey() : unavailable(this.#failure);
  };

  /**
   * Makes the next request fetch the keys again and wait for them.
   *
   * If the fetch fails, the known keys stay in use.
   */
  expire(): void {
    this.#fetchedAt = -Infinity;
    this.#triedAt = -Infinity;
    this.#previousFetchAt = -Infinity;
    this.#failure = undefined;
  }

  async #refresh(): Promise<void> {
    const age = this.#clock() - this.#fetchedAt;
    if (age >= REFRESH_MS && this.#mayFetch()) void this.#fetch();
    const isNeeded = this.#keys === undefined || (age >= MAX_AGE_MS && this.#failure === undefined);
    if (isNeeded) await this.#fetching;
    if (this.#keys === undefined) throw unavailable(this.#failure);
  }

  /**
   * Returns the matching key; undefined if there is none.
   *
   * @throws JOSEError if several keys match, or the matching key cannot be used
   */
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
    if (this.#failure !== undefined) return now - this.#triedAt >= RETRY_MS;
    return now - this.#previousFetchAt >= this.#cooldown;
  }

  /** Fetches the keys; concurrent calls share one fetch. Never rejects. */
  #fetch(): Promise<void> {
    this.#fetching ??= this.#fetchOnce().finally(() => (this.#fetching = undefined));
    return this.#fetching;
  }

  async #fetchOnce(): Promise<void> {
    this.#triedAt = this.#clock();
    try {
      this.#keys = createLocalJWKSet(await this.#source());
      this.#previousFetchAt = this.#fetchedAt;
      this.#fetchedAt = this.#clock();
      this.#failure = undefined;
      this.#onFetch(undefined);
    } catch (error) {
      this.#failure = error instanceof Error ? error : new Error(String(error));
      this.#onFetch(error);
    }
  }
}

/** @param cause why they cannot be fetched; undefined if that was not tried since a reload */
function unavailable(cause: Error | undefined): Unavailable {
  const reason = cause === undefined ? '' : `: ${printable(cause.message)}`;
  const message = `the keys of the issuer cannot be fetched${reason}`;
  return new Unavailable({ refusal: 'key_set_unavailable' }, message, { cause });
}
