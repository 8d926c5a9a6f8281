import { type MaybePromise, mapMaybe } from '../domain/maybe-promise.js';
import type { User } from '../domain/user.js';
import { Creations } from './creations.js';
import { ForwardingStore } from './forwarding.js';
import type { Revocations } from './revocations.js';
import type { SessionWithOwner, Store, TokenWithOwner } from './store.js';

/**
 * Stands in front of a store that may forget, and knows better: what ended for good is not there, and who was locked is
 * locked, whatever the store says.
 */
export class RememberingStore extends ForwardingStore {
  readonly creations: Creations;
  readonly #revocations: Revocations;

  constructor(inner: Store, revocations: Revocations) {
    super(inner);
    this.creations = new Creations(revocations);
    this.#revocations = revocations;
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
    const [record, owner] = args;
    if (result === 'created') this.creations.note({ kind: 'token', record, owner });
    return result;
  }

  override async createSession(...args: Parameters<Store['createSession']>) {
    const result = await super.createSession(...args);
    const [record, owner] = args;
    if (result !== 'owner_changed') this.creations.note({ kind: 'session', record, owner });
    return result;
  }

  #lockedIfKnown(user: User): User {
    return this.#revocations.isLocked(user) ? { ...user, locked: true } : user;
  }
}
