import { setImmediate } from 'node:timers/promises';
import { digestOf } from '../domain/secret.js';
import type { EpochMs } from '../util/time.js';
import { isSameUser, lockOf, type User } from '../domain/user.js';
import type { Directory, DirectoryUser } from './declared-directory.js';
import { globalApiTokenUser } from './legacy-keys.js';
import type { Passwords } from './passwords.js';
import type { Sealer } from './sealing.js';

/** Users or tokens written in one step, which takes about 10 ms and keeps others from writing. */
export const SLICE = 500;

export class DeclaredUsers {
  readonly #passwords: Passwords;
  readonly #sealer: Sealer;

  constructor(passwords: Passwords, sealer: Sealer) {
    this.#passwords = passwords;
    this.#sealer = sealer;
  }

  /** Returns records for the users that differ from their declaration. */
  async changed(
    declared: readonly DirectoryUser[],
    known: ReadonlyMap<string, User>,
    now: EpochMs,
  ): Promise<User[]> {
    const changed: User[] = [];
    for (const [i, entry] of declared.entries()) {
      if (i % SLICE === SLICE - 1) await setImmediate();
      const before = known.get(entry.id);
      const user: User = {
        id: entry.id,
        customerId: entry.customer_id,
        login: entry.login,
        name: entry.name,
        role: entry.role,
        ...(await this.#password(entry, before)),
        otpSecret: this.#otpSecret(entry, before),
        ...lockOf(entry.locked, before),
        createdAt: before?.createdAt ?? now,
        updatedAt: Math.max(now, (before?.updatedAt ?? 0) + 1),
      };
      if (before === undefined || !isSameUser(before, user)) changed.push(user);
    }
    return changed;
  }

  async #password(
    { password, password_hash: declared = null }: DirectoryUser,
    before: User | undefined,
  ): Promise<Pick<User, 'passwordHash' | 'rehashOf'>> {
    const old = before?.passwordHash ?? null;
    const isKept =
      old !== null &&
      (password == null
        ? declared !== null && before?.rehashOf === digestOf(declared)
        : await this.#passwords.verify(old, password, 0));
    if (isKept) return { passwordHash: old, rehashOf: before?.rehashOf };
    return { passwordHash: password == null ? declared : await this.#passwords.hash(password) };
  }

  #otpSecret(entry: DirectoryUser, before: User | undefined): string | null {
    if (entry.otp_secret == null) return null;
    const old = before?.otpSecret ?? null;
    if (old !== null && this.#sealer.open(old, entry.id) === entry.otp_secret) return old;
    return this.#sealer.seal(entry.otp_secret, entry.id);
  }
}

/** Returns owners of legacy keys: new ones, and those pending deletion whose customer is declared again. */
export function changedKeyOwners(
  { customers, legacy_keys: keys = [] }: Directory,
  known: ReadonlyMap<string, User>,
  now: EpochMs,
): User[] {
  const withKeys = new Set(keys.map((key) => key.customer_id));
  return customers.flatMap(({ id }) => {
    const owner = globalApiTokenUser(id, now);
    const before = known.get(owner.id);
    if (before === undefined) return withKeys.has(id) ? [owner] : [];
    if (before.deletionPending === undefined) return [];
    const { deletionPending: _, ...kept } = before;
    return [{ ...kept, ...lockOf(false, before), updatedAt: Math.max(now, before.updatedAt + 1) }];
  });
}
