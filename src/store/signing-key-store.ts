import type { MaybePromise } from '../domain/maybe-promise.js';
import type { SigningKeys } from '../domain/signing-key.js';

export interface SigningKeyStore {
  /** `undefined` when none were made. */
  get(): MaybePromise<SigningKeys | undefined>;
  /**
   * Writes the signing keys when those that are there have the revision before, or none are there and the revision is 1.
   * Returns whether it wrote. The check and the write are one step.
   */
  replace(next: SigningKeys): Promise<boolean>;
  /** Removes the signing keys, readable or not. Returns whether some were there. */
  remove(): Promise<boolean>;
}
