import type { Config } from '../config/schema/config.js';
import type { SigningAlgorithm, SigningKey } from '../domain/signing-key.js';
import type { EpochMs } from '../util/time.js';

export type SigningSettings = Pick<Config['identity']['assertion'], 'algorithm' | 'rotate_after' | 'ttl'>;

const MAX_AGE_MS = 300_000;
/** The longest `ttl` of a configuration; another process may use it. */
const MAX_TTL_MS = 3_600_000;

/**
 * When keys are created, sign and are removed. Verifiers cache keys for `maxAge`, and processes read them
 * every half of it. So a key is published for twice `maxAge` before it signs; the rest allows for clock
 * differences.
 */
export class SigningSchedule {
  readonly algorithm: SigningAlgorithm;
  readonly maxAge: number;
  readonly refresh: number;
  readonly #rotateAfter: number;
  readonly #lead: number;
  readonly #retention: number;

  constructor({ algorithm, rotate_after: rotateAfter, ttl }: SigningSettings) {
    this.algorithm = algorithm;
    this.maxAge = Math.min(MAX_AGE_MS, Math.floor(rotateAfter / 4_000) * 1_000);
    this.refresh = this.maxAge / 2;
    this.#rotateAfter = rotateAfter;
    this.#lead = 2 * this.maxAge;
    this.#retention = Math.max(ttl, Math.min(MAX_TTL_MS, rotateAfter)) + this.#lead;
  }

  /** The newest of the algorithm, or of any if it has none yet. */
  signer<K extends Pick<SigningKey, 'algorithm' | 'signsFrom'>>(
    keys: readonly K[],
    now: EpochMs,
  ): K | undefined {
    let best: K | undefined;
    for (const key of keys) if (best === undefined || this.#isBetter(key, best, now)) best = key;
    return best;
  }

  /** When a key to be created now has to start signing; undefined if none is due. */
  dueKey(keys: readonly SigningKey[], now: EpochMs): EpochMs | undefined {
    // The first key signs at once, because no verifier has cached an earlier set of keys.
    if (keys.length === 0) return now;
    const own = keys.filter(({ algorithm }) => algorithm === this.algorithm);
    const newest = Math.max(...own.map(({ signsFrom }) => signsFrom));
    return own.length === 0 || now >= newest + this.#rotateAfter - this.#lead ? now + this.#lead : undefined;
  }

  kept(keys: readonly SigningKey[], now: EpochMs): SigningKey[] {
    return keys.filter((key) => now < this.#endOf(key, keys, now) + this.#retention);
  }

  #isBetter(
    key: Pick<SigningKey, 'algorithm' | 'signsFrom'>,
    than: Pick<SigningKey, 'algorithm' | 'signsFrom'>,
    now: EpochMs,
  ): boolean {
    const signs = key.signsFrom <= now;
    if (signs !== than.signsFrom <= now) return signs;
    // No key signs only if the clock was set back; the oldest is the one that is known everywhere.
    if (!signs) return key.signsFrom < than.signsFrom;
    if (key.algorithm !== than.algorithm) return key.algorithm === this.algorithm;
    return key.signsFrom > than.signsFrom;
  }

  #endOf(key: SigningKey, keys: readonly SigningKey[], now: EpochMs): EpochMs {
    const later = keys.filter(({ signsFrom }) => signsFrom > key.signsFrom && signsFrom <= now);
    const successor = later.find(({ algorithm }) => algorithm === key.algorithm);
    if (successor !== undefined) return successor.signsFrom;
    // Nobody rotates the keys of an algorithm that is no longer in use.
    return later.length > 0 && key.algorithm !== this.algorithm
      ? key.signsFrom + this.#rotateAfter + this.#lead
      : Infinity;
  }
}
