import {
  createLocalJWKSet,
  errors,
  type FlattenedJWSInput,
  type JWSHeaderParameters,
  type JWTVerifyGetKey,
} from 'jose';
import { Unavailable } from '../../domain/refusal.js';
import { type OnFetch, RefreshedValue } from '../../net/refreshed-value.js';
import { printable } from '../../util/text.js';
import type { KeySource } from './key-source.js';

type Keys = ReturnType<typeof createLocalJWKSet>;

const TIMES = { after: 5 * 60_000, staleFor: 10 * 60_000, retry: 2_000 };
/** Period in milliseconds with at most two fetches, however many unknown keys are named. */
const COOLDOWN_MS = 30_000;

/**
 * The public keys of an issuer, fetched on demand.
 *
 * Known keys stay in use while they cannot be fetched again, unlike with jose's remote key set. The
 * cooldown allows two successful fetches: the second one finds a key that was added just after the
 * first.
 */
export class KeySet {
  readonly #keys: RefreshedValue<Keys>;

  /**
   * @param clock a monotonic clock, in milliseconds
   * @param cooldown period in milliseconds with at most two fetches
   */
  constructor(source: KeySource, onFetch?: OnFetch, clock?: () => number, cooldown = COOLDOWN_MS) {
    const fetchKeys = async () => createLocalJWKSet(await source());
    this.#keys = new RefreshedValue(fetchKeys, { ...TIMES, cooldown }, onFetch, clock);
  }

  /**
   * Returns the key that a JWT names.
   *
   * @throws JOSEError if no key matches; Unavailable if the keys cannot be fetched, so that this is
   *   unknown
   */
  readonly find: JWTVerifyGetKey = async (header, token) => {
    const keys = await this.#keys.get().catch((cause: unknown) => {
      throw unavailable(cause);
    });
    const found =
      (await lookUp(keys, header, token)) ?? (await lookUp(await this.#keys.newer(), header, token));
    if (found !== undefined) return found;
    const { failure } = this.#keys;
    throw failure === undefined ? new errors.JWKSNoMatchingKey() : unavailable(failure);
  };

  /** Makes the next request wait for newer keys. If the fetch fails, known keys stay in use. */
  expire(): void {
    this.#keys.expire();
  }
}

/**
 * Returns the matching key; undefined if there is none.
 *
 * @throws JOSEError if several keys match, or the matching key cannot be used
 */
async function lookUp(keys: Keys | undefined, header: JWSHeaderParameters, token: FlattenedJWSInput) {
  try {
    return await keys?.(header, token);
  } catch (error) {
    if (error instanceof errors.JWKSNoMatchingKey) return undefined;
    throw error;
  }
}

/** @param cause why they cannot be fetched; undefined if that was not tried since a reload */
function unavailable(cause: unknown): Unavailable {
  const reason = cause instanceof Error ? `: ${printable(cause.message)}` : '';
  const message = `the keys of the issuer cannot be fetched${reason}`;
  return new Unavailable({ refusal: 'key_set_unavailable' }, message, { cause });
}
