import { type MaybePromise, mapMaybe } from '../domain/maybe-promise.js';
import { isExpired } from '../domain/token.js';
import type { EpochMs } from '../domain/time.js';
import type { User } from '../domain/user.js';
import { ForwardingStore } from './forwarding.js';
import { REMEMBERED_MS, type Revocations } from './revocations.js';
import type { SessionWithOwner, Store, TokenWithOwner } from './store.js';

/** So many created tokens are remembered, to tell which ones a store lost. */
const MAX_CREATED = 10_000;

/** A token that this process created. */
interface Created {
  readonly at: number;
  readonly expiresAt: EpochMs | null;
}

/**
 * Stands in front of a store that may forget, and knows better: what ended for good is not there, and who was locked is
 * locked, whatever the store says.
 */
export class RememberingStore extends ForwardingStore {
  readonly #revocations: Revocations;
  readonly #created = new Map<string, Created>();

  constructor(inner: Store, revocations: Revocations) {
    super(inner);
    this.#revocations = revocations;
  }

  /** Ids of the tokens that this process created lately, and that were not revoked and are not expired. */
  createdTokens(now: EpochMs): string[] {
    const oldest = performance.now() - REMEMBERED_MS;
    for (const [id, { at, expiresAt }] of this.#created)
      if (at < oldest || isExpired({ expiresAt }, now) || this.#revocations.hasToken({ id, digest: '' }))
        this.#created.delete(id);
    return [...this.#created.keys()];
  }

  /** Tokens are lost, which was told. */
  forgetTokens(ids: readonly string[]): void {
    for (const id of ids) this.#created.delete(id);
  }

  override findToken(digest: string): MaybePromise<TokenWithOwner | undefined> {
    return mapMaybe(this.inner.findToken(digest), (found) => {
      if (found === undefined || this.#revocations.hasToken(found.token)) return undefined;
      const owner = this.#lockedIfKnown(found.owner);
      return owner === found.owner ? found : { token: found.token, owner };
    });
  }

  override findSession(digest: string): MaybePromise<SessionWithOwner | undefined> {
    return mapMaybe(this.inner.findSession(digest), (found) => {
      if (found === undefined || this.#revocations.hasSession(digest)) return undefined;
      return { session: found.session, owner: this.#lockedIfKnown(found.owner) };
    });
  }

  override getUser(id: string): MaybePromise<User | undefined> {
    return mapMaybe(this.inner.getUser(id), (found) => found && this.#lockedIfKnown(found));
  }

  override getUserByLogin(login: string): MaybePromise<User | undefined> {
    return mapMaybe(this.inner.getUserByLogin(login), (found) => found && this.#lockedIfKnown(found));
  }

  override async createToken(...args: Parameters<Store['createToken']>) {
    const result = await super.createToken(...args);
    const [{ id, expiresAt }] = args;
    if (result === 'created') this.#created.set(id, { at: performance.now(), expiresAt });
    const [oldest] = this.#created.keys();
    if (this.#created.size > MAX_CREATED && oldest !== undefined) this.#created.delete(oldest);
    return result;
  }

  #lockedIfKnown(user: User): User {
    return this.#revocations.isLocked(user) ? { ...user, locked: true } : user;
  }
}
