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
/** At most two fetches in it, however many unknown keys are named. */
const COOLDOWN_MS = 30_000;

/**
 * Unlike in jose's remote key set, known keys stay in use while they cannot be fetched. The second fetch of a
 * cooldown finds a key that was added just after the first.
 */
export class KeySet {
  readonly #keys: RefreshedValue<Keys>;

  constructor(source: KeySource, onFetch?: OnFetch, clock?: () => number, cooldown = COOLDOWN_MS) {
    const fetchKeys = async () => createLocalJWKSet(await source());
    this.#keys = new RefreshedValue(fetchKeys, { ...TIMES, cooldown }, onFetch, clock);
  }

  /** @throws JOSEError if no key matches; Unavailable if the keys cannot be fetched */
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

  /** Makes the next request wait for newer keys. */
  expire(): void {
    this.#keys.expire();
  }
}

/** @throws JOSEError if several keys match, or the matching key cannot be used */
async function lookUp(keys: Keys | undefined, header: JWSHeaderParameters, token: FlattenedJWSInput) {
  try {
    return await keys?.(header, token);
  } catch (error) {
    if (error instanceof errors.JWKSNoMatchingKey) return undefined;
    throw error;
  }
}

function unavailable(cause: unknown): Unavailable {
  const reason = cause instanceof Error ? `: ${printable(cause.message)}` : '';
  const message = `the keys of the issuer cannot be fetched${reason}`;
  return new Unavailable({ refusal: 'key_set_unavailable' }, message, { cause });
}
