import { setImmediate } from 'node:timers/promises';
import { digestOf } from '../domain/secret.js';
import type { EpochMs } from '../util/time.js';
import { isSameUser, lockOf, type User } from '../domain/user.js';
import type { Directory, DirectoryUser } from './declared-directory.js';
import { globalApiTokenUser } from './legacy-keys.js';
import type { Passwords } from './passwords.js';
import type { Sealer } from './sealing.js';

/** After this many users, other work has its turn. */
const PAUSE = 500;

export interface UserSecrets {
  readonly passwords: Passwords;
  readonly sealer: Sealer;
}

/** Returns records for the users that differ from their declaration. */
export async function changedUsers(
  declared: readonly DirectoryUser[],
  known: ReadonlyMap<string, User>,
  { passwords, sealer }: UserSecrets,
  now: EpochMs,
): Promise<User[]> {
  const changed: User[] = [];
  for (const [i, entry] of declared.entries()) {
    if (i % PAUSE === PAUSE - 1) await setImmediate();
    const before = known.get(entry.id);
    const user: User = {
      id: entry.id,
      customerId: entry.customer_id,
      login: entry.login,
      name: entry.name,
      role: entry.role,
      ...(await passwordOf(entry, before, passwords)),
      otpSecret: otpSecretOf(entry, before, sealer),
      ...lockOf(entry.locked, before),
      createdAt: before?.createdAt ?? now,
      updatedAt: Math.max(now, (before?.updatedAt ?? 0) + 1),
    };
    if (before === undefined || !isSameUser(before, user)) changed.push(user);
  }
  return changed;
}

async function passwordOf(
  { password, password_hash: declared = null }: DirectoryUser,
  before: User | undefined,
  passwords: Passwords,
): Promise<Pick<User, 'passwordHash' | 'rehashOf'>> {
  const old = before?.passwordHash ?? null;
  const isKept =
    old !== null &&
    (password == null
      ? declared !== null && before?.rehashOf === digestOf(declared)
      : await passwords.verify(old, password, 0));
  if (isKept) return { passwordHash: old, rehashOf: before?.rehashOf };
  return { passwordHash: password == null ? declared : await passwords.hash(password) };
}

function otpSecretOf({ id, otp_secret: secret }: DirectoryUser, before: User | undefined, sealer: Sealer) {
  if (secret == null) return null;
  const old = before?.otpSecret ?? null;
  return old !== null && sealer.open(old, id) === secret ? old : sealer.seal(secret, id);
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
