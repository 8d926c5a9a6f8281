import { StoreUnavailable } from '../faults.js';
import type { SessionStore, SessionWithOwner } from '../session-store.js';
import { type Bridge, Warming } from './bridge.js';
import type { Coverage } from './notifications.js';
import type { Owners } from './entries.js';
import { mapMaybe, type MaybePromise } from '../../domain/maybe-promise.js';
import type { TokenStore } from '../token-store.js';

/** Look-ups of sessions: the store's answer, or what is known about them while another master is being chosen. */
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

  /** Sessions that began or ended, or were known before the latest failover, are read, so that they are known at the next one. */
  warm(digests: readonly string[]): void {
    if (this.#coverage.isEnabled && this.#bridge !== undefined) this.#warming.add(digests);
  }

  /** Returns false when a change came in between. */
  async #warm(digest: string): Promise<boolean> {
    if (!this.#coverage.isEnabled || this.#bridge?.session(digest) !== undefined) return true;
    const found = await this.find(digest);
    if (found === undefined) this.#bridge?.end(digest);
    return found === undefined || this.#bridge?.session(digest) !== undefined;
  }

  /** A session that is known, or is known to have ended. */
  #bridged(digest: string): { readonly found: SessionWithOwner | undefined } | undefined {
    if (this.#bridge?.hasEnded(digest) === true) return { found: undefined };
    const session = this.#coverage.isBridging ? this.#bridge?.session(digest) : undefined;
    const owner = session && this.#owners.get(session.userId);
    return session === undefined || owner === undefined ? undefined : { found: { session, owner } };
  }
}

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
