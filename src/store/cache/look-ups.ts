import { StoreUnavailable } from '../faults.js';
import type { SessionStore, SessionWithOwner } from '../session-store.js';
import { type Bridge, Warming } from './bridge.js';
import type { Coverage } from './notifications.js';
import type { Owners } from './entries.js';
import { mapMaybe, type MaybePromise } from '../../util/async.js';
import type { TokenStore } from '../token-store.js';

/** Looks up sessions in the store, or in the bridge while another master is being elected. */
export class SessionLookUps {
  readonly #inner: SessionStore;
  readonly #coverage: Coverage;
  readonly #owners: Owners;
  readonly #bridge: Bridge | undefined;
  readonly #warming = new Warming((digest) => this.#warm(digest));

  constructor(inner: SessionStore, coverage: Coverage, owners: Owners, bridge: Bridge | undefined) {
    this.#inner = inner;
    this.#coverage = coverage;
    this.#owners = owners;
    this.#bridge = bridge;
  }

  async find(digest: string): Promise<SessionWithOwner | undefined> {
    const { generation } = this.#coverage;
    let found: SessionWithOwner | undefined;
    try {
      found = await this.#inner.find(digest);
    } catch (error) {
      const known = error instanceof StoreUnavailable ? this.#bridged(digest) : undefined;
      if (known === undefined) throw error;
      return known.found;
    }
    if (found !== undefined) this.#owners.note(found.owner);
    if (this.#bridge === undefined) return found;
    if (found === undefined) this.#bridge.dropSession(digest);
    else if (generation === this.#coverage.generation) {
      this.#owners.keep(found.owner);
      this.#bridge.noteSession(found.session);
    }
    return found;
  }

  /** Reads sessions in the background, so that they are known at the next failover. */
  warm(digests: readonly string[]): void {
    if (this.#coverage.isEnabled && this.#bridge !== undefined) this.#warming.add(digests);
  }

  /** Returns false if a change came in between. */
  async #warm(digest: string): Promise<boolean> {
    if (!this.#coverage.isEnabled || this.#bridge?.session(digest) !== undefined) return true;
    const found = await this.find(digest);
    if (found === undefined) this.#bridge?.end(digest);
    return found === undefined || this.#bridge?.session(digest) !== undefined;
  }

  /** Returns a known session, or that it is known to have ended; undefined if neither is known. */
  #bridged(digest: string): { readonly found: SessionWithOwner | undefined } | undefined {
    if (this.#bridge?.hasEnded(digest) === true) return { found: undefined };
    const session = this.#coverage.isBridging ? this.#bridge?.session(digest) : undefined;
    const owner = session && this.#owners.get(session.userId);
    return session === undefined || owner === undefined ? undefined : { found: { session, owner } };
  }
}

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
    const lookUp = mapMaybe(this.#inner.hasLegacyKeys(), (some) => {
      if (this.#coverage.isEnabled && generation === this.#coverage.generation) this.#known = some;
      return some;
    });
    if (known === undefined || !(lookUp instanceof Promise)) return lookUp;
    return lookUp.catch((error: unknown) => {
      if (error instanceof StoreUnavailable && this.#coverage.isBridging) return known;
      throw error;
    });
  }

  forget(): void {
    this.#known = undefined;
  }
}
