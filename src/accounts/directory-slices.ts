import { loginKey, type User } from '../domain/user.js';
import { partsOf } from '../store/parts.js';
import type { Changes } from '../store/directory-store.js';

/** Users or tokens written in one step, which takes about 10 ms and keeps others from writing. */
export const SLICE = 500;

/**
 * Splits a large change. The first slice has everything that a concurrent change can make fail: removals, and
 * logins that change hands. The others only add records or update single users.
 */
export function slicesOf(changes: Changes, known: ReadonlyMap<string, User>): Changes[] {
  const { users = [], tokens = [], declared = [], removeCustomers = [], ...rest } = changes;
  if (Math.max(users.length, tokens.length, declared.length) <= SLICE) return [changes];
  const isRenamed = (user: User): boolean => {
    const before = known.get(user.id);
    return before !== undefined && loginKey(before.login) !== loginKey(user.login);
  };
  const first = users.filter(isRenamed);
  const others = users.filter((user) => !isRenamed(user));
  return [
    { ...rest, users: first, basedOn: basisOf([...first.map(idOf), ...(rest.removeUsers ?? [])], changes) },
    ...partsOf(others, SLICE).map((some) => ({ users: some, basedOn: basisOf(some.map(idOf), changes) })),
    ...partsOf(tokens, SLICE).map((some) => ({ tokens: some })),
    ...partsOf(declared, SLICE).map((some) => ({ declared: some })),
    { removeCustomers },
  ];
}

function basisOf(ids: readonly string[], { basedOn }: Changes): ReadonlyMap<string, number | null> {
  return new Map(ids.map((id) => [id, basedOn?.get(id) ?? null]));
}

function idOf({ id }: User): string {
  return id;
}
