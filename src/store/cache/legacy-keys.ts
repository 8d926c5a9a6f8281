import { type MaybePromise, mapMaybe } from '../../domain/maybe-promise.js';
import { StoreUnavailable } from '../faults.js';
import type { TokenStore } from '../token-store.js';
import type { Coverage } from './coverage.js';

/** Whether there are legacy keys, as last read. */
export class LegacyKeys {
  readonly #inner: Pick<TokenStore, 'hasLegacyKeys'>;
  readonly #coverage: Coverage;
  #known: boolean | undefined;

  constructor(inner: Pick<TokenStore, 'hasLegacyKeys'>, coverage: Coverage) {
    this.#inner = inner;
    this.#coverage = coverage;
  }

  exist(): MaybePromise<boolean> {
    const known = this.#known;
    if (known !== undefined && this.#coverage.isCurrent(performance.now())) return known;
    const { generation } = this.#coverage;
    const asked = mapMaybe(this.#inner.hasLegacyKeys(), (some) => {
      if (this.#coverage.isEnabled && generation === this.#coverage.generation) this.#known = some;
      return some;
    });
    if (known === undefined || !(asked instanceof Promise)) return asked;
    return asked.catch((error: unknown) => {
      if (error instanceof StoreUnavailable && this.#coverage.isBridging) return known;
      throw error;
    });
  }

  forget(): void {
    this.#known = undefined;
  }
}
