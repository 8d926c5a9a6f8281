import type { EpochMs } from '../util/time.js';
import type { Token } from '../domain/token.js';
import { type Customer, isSameUser, loginKey, type Service, type User } from '../domain/user.js';
import type { Changes } from '../store/directory-store.js';
import { partsOf } from '../store/parts.js';
import { removalTime } from '../store/removal-time.js';
import type { Store } from '../store/store.js';
import type { Directory } from './declared-directory.js';
import { planDeclaredTokens } from './declared-tokens.js';
import { changedKeyOwners, type DeclaredUsers, SLICE } from './declared-users.js';
import { type Difference, differencesOf, type Known } from './directory-differences.js';
import {
  globalApiTokenUser,
  isGlobalApiTokenUser,
  isMoved,
  legacyTokens,
  staleKeys,
  withLimitsOf,
} from './legacy-keys.js';
import { hasActiveTokens, pendingDeletionOf } from './pending-deletions.js';

interface Slice {
  readonly changes: Changes;
  readonly differences: readonly Difference[];
}

export interface Plan {
  readonly changes: Changes;
  /** The same changes, in the steps in which they are written. */
  readonly slices: readonly Slice[];
  readonly differences: readonly Difference[];
  /** Undeclared users who cannot be deleted because they have active tokens. */
  readonly pendingDeletions: readonly string[];
  /** Declared tokens that stay revoked. */
  readonly revokedTokens: readonly string[];
}

export class DirectoryPlanner {
  readonly #store: Pick<Store, 'tokens' | 'directory' | 'maintenance'>;
  readonly #users: DeclaredUsers;

  constructor(store: Pick<Store, 'tokens' | 'directory' | 'maintenance'>, users: DeclaredUsers) {
    this.#store = store;
    this.#users = users;
  }

  async plan(directory: Directory, now: EpochMs): Promise<Plan> {
    const declared = idSets(directory);
    const known = await this.#readStore(declared);
    const users = await this.#users.changed(directory.users, known.users, now);
    users.push(...changedKeyOwners(directory, known.users, now));
    const keys = legacyTokens(directory, now);
    const removeTokens = directory.legacy_keys === undefined ? [] : staleKeys(keys, known.legacyKeys);
    const undeclared = [...known.users.values()].filter(
      (user) =>
        !declared.users.has(user.id) && !(isKeptUndeclared(user) && declared.customers.has(user.customerId)),
    );
    const tokens = await planDeclaredTokens(directory, known.declaredTokens, this.#store.tokens, now);
    const pending = await this.#withActiveTokens(undeclared, [...removeTokens, ...tokens.revoke], now);
    const removeUsers = undeclared.filter((user) => !pending.includes(user));
    users.push(
      ...pending
        .map((user) => pendingDeletionOf(user, declared.logins, now))
        .filter((user) => !isSameUser(user, known.users.get(user.id) as User)),
    );
    const stillNeeded = new Set(pending.map(({ customerId }) => customerId));
    const changes: Changes = {
      customers: directory.customers
        .filter((c) => known.customers.get(c.id)?.name !== c.name)
        .map(({ id, name }) => ({ id, name })),
      services: directory.services
        .map((s): Service => ({ id: s.id, customerId: s.customer_id, name: s.name }))
        .filter((s) => !isSameService(known.services.get(s.id), s)),
      users,
      tokens: await this.#newTokens(keys, known.legacyKeys),
      declared: tokens.put,
      revokeDeclared: tokens.revoke,
      removeTokens,
      removeUsers: removeUsers.map(({ id }) => id),
      removeServices: [...known.services.keys()].filter((id) => !declared.services.has(id)),
      removeCustomers: [...known.customers.keys()].filter(
        (id) => !declared.customers.has(id) && !stillNeeded.has(id),
      ),
      basedOn: new Map(
        [...users, ...removeUsers].map(({ id }) => [id, known.users.get(id)?.updatedAt ?? null]),
      ),
    };
    const differences = differencesOf(changes, known);
    return {
      changes,
      slices: differences.length === 0 ? [] : describedSlices(changes, differences, known),
      differences,
      pendingDeletions: pending.map(({ id }) => id),
      revokedTokens: tokens.staysRevoked,
    };
  }

  async #withActiveTokens(users: readonly User[], going: readonly string[], now: EpochMs): Promise<User[]> {
    const ids = new Set(going);
    const removedAt = users.length === 0 ? now : await removalTime(this.#store.maintenance, now);
    const found: User[] = [];
    for (const user of users)
      if (await hasActiveTokens(this.#store.tokens, user.id, removedAt, ({ id }) => ids.has(id)))
        found.push(user);
    return found;
  }

  /** Includes the records of a declared customer whose own record is gone. */
  async #readStore(ids: ReturnType<typeof idSets>): Promise<Known> {
    const customers = new Map<string, Customer>();
    const services = new Map<string, Service>();
    const users = new Map<string, User>();
    const legacyKeys = new Map<string, Token>();
    const { directory } = this.#store;
    for (const customer of await directory.listCustomers()) customers.set(customer.id, customer);
    for (const id of new Set([...customers.keys(), ...ids.customers])) {
      for (const service of await directory.listServices(id)) services.set(service.id, service);
      for (const user of await directory.listUsers(id)) users.set(user.id, user);
      for (const { token } of await this.#store.tokens.listOfUser(globalApiTokenUser(id, 0).id)) {
        legacyKeys.set(token.digest, token);
      }
    }
    const declared = await this.#store.tokens.listDeclared();
    const declaredTokens = new Map(declared.map(({ token }) => [token.id, token]));
    return { customers, services, users, legacyKeys, declaredTokens };
  }

  async #newTokens(
    declared: ReadonlyMap<string, Token>,
    known: ReadonlyMap<string, Token>,
  ): Promise<Token[]> {
    const fresh = new Set(await this.#store.tokens.filterNewDigests([...declared.keys()]));
    return [...declared.values()].flatMap((token) => {
      const before = known.get(token.digest);
      if (isMoved(before, token)) return [withLimitsOf(before, token)];
      return fresh.has(token.digest) ? [token] : [];
    });
  }
}

function describedSlices(changes: Changes, differences: readonly Difference[], known: Known): Slice[] {
  const slices = slicesOf(changes, known.users);
  if (slices.length === 1) return [{ changes, differences }];
  return slices.map((slice) => ({
    changes: slice,
    differences: differencesOf(slice, known, changes.users),
  }));
}

/** Owners of legacy keys and users of providers are never declared; they stay as long as their customer. */
function isKeptUndeclared(user: User): boolean {
  return isGlobalApiTokenUser(user) || user.provider !== undefined;
}

function idSets(directory: Directory) {
  return {
    customers: new Set(directory.customers.map((c) => c.id)),
    services: new Set(directory.services.map((s) => s.id)),
    users: new Set(directory.users.map((u) => u.id)),
    logins: new Set(directory.users.map((u) => loginKey(u.login))),
  };
}

function isSameService(a: Service | undefined, b: Service): boolean {
  return a !== undefined && a.customerId === b.customerId && a.name === b.name;
}

/**
 * Splits a large change. The first slice has everything that a concurrent change can make fail: removals, and
 * logins that change hands. The others only add records or update single users.
 */
function slicesOf(changes: Changes, known: ReadonlyMap<string, User>): Changes[] {
  const { users = [], tokens = [], declared = [], removeCustomers = [], ...rest } = changes;
  if (Math.max(users.length, tokens.length, declared.length) <= SLICE) return [changes];
  const isRenamed = (user: User): boolean => {
    const before = known.get(user.id);
    return before !== undefined && loginKey(before.login) !== loginKey(user.login);
  };
  const first = users.filter(isRenamed);
  const others = users.filter((user) => !isRenamed(user));
  return [
    {
      ...rest,
      users: first,
      basedOn: basisOf([...first.map(({ id }) => id), ...(rest.removeUsers ?? [])], changes),
    },
    ...partsOf(others, SLICE).map((some) => ({
      users: some,
      basedOn: basisOf(
        some.map(({ id }) => id),
        changes,
      ),
    })),
    ...partsOf(tokens, SLICE).map((some) => ({ tokens: some })),
    ...partsOf(declared, SLICE).map((some) => ({ declared: some })),
    { removeCustomers },
  ];
}

function basisOf(ids: readonly string[], { basedOn }: Changes): ReadonlyMap<string, number | null> {
  return new Map(ids.map((id) => [id, basedOn?.get(id) ?? null]));
}
