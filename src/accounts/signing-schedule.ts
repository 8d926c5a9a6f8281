import type { Config } from '../config/schema/config.js';
import type { SigningAlgorithm, SigningKey } from '../domain/signing-key.js';
import type { EpochMs } from '../domain/time.js';

/** What decides about the life of a key. */
export type SigningSettings = Pick<Config['identity']['assertion'], 'algorithm' | 'rotate_after' | 'ttl'>;

/** The longest time that verifiers are asked to keep the published keys. */
const MAX_AGE_MS = 300_000;
/** The longest life of an assertion that the configuration allows; another process may use it. */
const MAX_TTL_MS = 3_600_000;

/**
 * When keys are made, sign and are removed.
 *
 * A verifier may hold the published keys for `maxAge`, and each process reads them from the store every half of it. A key
 * is published twice that long before it signs, so the half that is left is for clocks that differ. All times follow from
 * `rotate_after`, so that a short one is as sound as a long one.
 */
export class SigningSchedule {
  readonly algorithm: SigningAlgorithm;
  /** How long verifiers may keep the published keys. */
  readonly maxAge: number;
  /** How often a process reads the keys from the store. */
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

  /** Which of the keys signs: the newest of the algorithm, or any while there is none of it yet. */
  signer<K extends Pick<SigningKey, 'algorithm' | 'signsFrom'>>(
    keys: readonly K[],
    now: EpochMs,
  ): K | undefined {
    let best: K | undefined;
    for (const key of keys) if (best === undefined || this.#isBetter(key, best, now)) best = key;
    return best;
  }

  /** From when a key has to sign that should be made now; undefined when none should. */
  dueKey(keys: readonly SigningKey[], now: EpochMs): EpochMs | undefined {
    // Nobody holds older keys that the first one would surprise.
    if (keys.length === 0) return now;
    const own = keys.filter(({ algorithm }) => algorithm === this.algorithm);
    const newest = Math.max(...own.map(({ signsFrom }) => signsFrom));
    return own.length === 0 || now >= newest + this.#rotateAfter - this.#lead ? now + this.#lead : undefined;
  }

  /** The keys whose signatures may still be in use. */
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
    // Only a clock that went back leaves none that signs; the oldest is the one that is known everywhere.
    if (!signs) return key.signsFrom < than.signsFrom;
    if (key.algorithm !== than.algorithm) return key.algorithm === this.algorithm;
    return key.signsFrom > than.signsFrom;
  }

  /** When a key stopped signing; never for one that signs. */
  #endOf(key: SigningKey, keys: readonly SigningKey[], now: EpochMs): EpochMs {
    const later = keys.filter(({ signsFrom }) => signsFrom > key.signsFrom && signsFrom <= now);
    const successor = later.find(({ algorithm }) => algorithm === key.algorithm);
    if (successor !== undefined) return successor.signsFrom;
    // Nobody rotates the keys of an algorithm that is used no more.
    return later.length > 0 && key.algorithm !== this.algorithm
      ? key.signsFrom + this.#rotateAfter + this.#lead
      : Infinity;
  }
}
