import { setImmediate } from 'node:timers/promises';
import { isDeepStrictEqual } from 'node:util';
import type { EpochMs } from '../util/time.js';
import type { ChangeRefused, Changes } from '../store/core/directory-checks.js';
import { OutcomeUnknown, StoreUnavailable } from '../store/faults.js';
import { removalTime, type Store } from '../store/core/store.js';
import {
  changedKeyOwners,
  changedUsers,
  type Directory,
  globalApiTokenUser,
  isGlobalApiTokenUser,
  isMoved,
  legacyTokens,
  planDeclaredTokens,
  staleKeys,
  type UserSecrets,
  withLimitsOf,
} from './declared-records.js';
import { type Difference, differencesOf, type Known } from './directory-differences.js';
import type { Token } from '../domain/token.js';
import { type Customer, isSameUser, loginKey, type Service, type User } from '../domain/user.js';
import { partsOf } from '../util/collections.js';
import { hasActiveTokens, pendingDeletionOf } from './pending-deletions.js';

/** The plan is computed again if a user was changed between the plan and the write. */
const MAX_ATTEMPTS = 3;

export interface NotApplied {
  readonly refused: ChangeRefused;
  /** Whether a part was written. */
  readonly isPartial: boolean;
}

/** Receives the differences that were written; with `unknown`, those that may have been. */
type Report = (differences: readonly Difference[], outcome: 'success' | 'unknown') => void;

type PlannedStore = Pick<Store, 'tokens' | 'directory' | 'maintenance'>;

/** A small directory is applied entirely or not at all; between steps of a large one, others may read a part. */
export class DirectoryApplier {
  readonly #store: PlannedStore;
  readonly #secrets: UserSecrets;

  constructor(store: PlannedStore, secrets: UserSecrets) {
    this.#store = store;
    this.#secrets = secrets;
  }

  /** With the differences of all attempts. @throws OutcomeUnknown, StoreUnavailable */
  async apply(directory: Directory, now: EpochMs, report: Report): Promise<Plan | NotApplied> {
    const planned = new Map<string, Difference>();
    let written = 0;
    for (let attempts = 1; ; attempts++) {
      const plan = await this.plan(directory, now);
      if (written === 0) planned.clear();
      for (const each of plan.differences) planned.set(`${each.change} ${each.kind} ${each.id}`, each);
      const differences = [...planned.values()];
      let refused: ChangeRefused | undefined;
      for (const step of plan.steps) {
        refused = await this.#store.directory.change(step, now).catch((error: unknown) => {
          if (!(error instanceof OutcomeUnknown || (written > 0 && error instanceof StoreUnavailable)))
            throw error;
          report(differences, 'unknown');
          throw new OutcomeUnknown(error.message, { cause: error });
        });
        if (refused !== undefined) break;
        written += 1;
        await setImmediate();
      }
      if (refused === undefined) {
        report(differences, 'success');
        return { ...plan, differences };
      }
      if (isTransientRefusal(refused) && attempts < MAX_ATTEMPTS) continue;
      if (written > 0) report(differences, 'unknown');
      return { refused, isPartial: written > 0 };
    }
  }

  async plan(directory: Directory, now: EpochMs): Promise<Plan> {
    const declared = idSets(directory);
    const known = await readStore(this.#store, declared);
    const users = await changedUsers(directory.users, known.users, this.#secrets, now);
    users.push(...changedKeyOwners(directory, known.users, now));
    const keys = legacyTokens(directory, now);
    const removeTokens = directory.legacy_keys === undefined ? [] : staleKeys(keys, known.legacyKeys);
    const undeclared = [...known.users.values()].filter(
      (user) =>
        !declared.users.has(user.id) && !(isKeptUndeclared(user) && declared.customers.has(user.customerId)),
    );
    const tokens = await planDeclaredTokens(directory, known.declaredTokens, this.#store.tokens, now);
    const pending = await withActiveTokens(this.#store, undeclared, [...removeTokens, ...tokens.revoke], now);
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
        .filter((s) => !isDeepStrictEqual(known.services.get(s.id), s)),
      users,
      tokens: await newTokens(this.#store, keys, known.legacyKeys),
      declared: tokens.put,
      revokeDeclared: tokens.revoke,
      removeTokens,
      removeUsers: removeUsers.map(({ id }) => id),
      removeServices: [...known.services.keys()].filter((id) => !declared.services.has(id)),
      removeCustomers: [...known.customers.keys()].filter(
        (id) => !declared.customers.has(id) && !stillNeeded.has(id),
      ),
    };
    const differences = differencesOf(changes, known);
    return {
      steps: differences.length === 0 ? [] : stepsOf(changes, known.users),
      differences,
      pendingDeletions: pending.map(({ id }) => id),
      revokedTokens: tokens.staysRevoked,
    };
  }
}

const MAX_IDS = 20;
const TRANSIENT: ReadonlySet<ChangeRefused['reason']> = new Set([
  'changed_meanwhile',
  'active_tokens',
  'unknown_customer',
  'customer_in_use',
]);

export function describeRefusedChange(refused: ChangeRefused): string {
  switch (refused.reason) {
    case 'active_tokens':
      return `${refused.users.map(describeActive).join('; ')}; revoke them first (latchkey token revoke ID...)`;
    case 'login_taken':
      return `the login ${refused.login} of user ${refused.userId} already belongs to another user`;
    case 'unknown_customer':
      return `there is no customer ${refused.customerId}; declare it under customers`;
    case 'customer_in_use':
      return `the customer ${refused.customerId} still has users or services; remove them first`;
    case 'unknown_user':
      return `there is no user ${refused.userId} to own the token`;
    case 'token_taken':
      return `the id or the secret of the declared token ${refused.tokenId} belongs to another token or user; generate another (latchkey token generate)`;
    case 'changed_meanwhile':
      return `the user ${refused.userId} was changed by someone else in the meantime; try again`;
  }
}

/** Whether a recomputed change may succeed. */
export function isTransientRefusal({ reason }: ChangeRefused): boolean {
  return TRANSIENT.has(reason);
}

function describeActive({ userId, tokenIds }: { userId: string; tokenIds: readonly string[] }): string {
  const more = tokenIds.length > MAX_IDS ? ` and ${tokenIds.length - MAX_IDS} more` : '';
  return `the user ${userId} still has active tokens (${tokenIds.slice(0, MAX_IDS).join(', ')}${more})`;
}

export interface Plan {
  /** The changes, in the steps in which they are written. */
  readonly steps: readonly Changes[];
  readonly differences: readonly Difference[];
  /** Undeclared users who cannot be deleted because they have active tokens. */
  readonly pendingDeletions: readonly string[];
  /** Declared tokens that stay revoked. */
  readonly revokedTokens: readonly string[];
}

async function withActiveTokens(
  store: PlannedStore,
  users: readonly User[],
  going: readonly string[],
  now: EpochMs,
): Promise<User[]> {
  const ids = new Set(going);
  const removedAt = users.length === 0 ? now : await removalTime(store.maintenance, now);
  const found: User[] = [];
  for (const user of users)
    if (await hasActiveTokens(store.tokens, user.id, removedAt, ({ id }) => ids.has(id))) found.push(user);
  return found;
}

/** Includes the records of a declared customer whose own record is gone. */
async function readStore(
  { directory, tokens }: PlannedStore,
  ids: ReturnType<typeof idSets>,
): Promise<Known> {
  const customers = new Map<string, Customer>();
  const services = new Map<string, Service>();
  const users = new Map<string, User>();
  const legacyKeys = new Map<string, Token>();
  for (const customer of await directory.listCustomers()) customers.set(customer.id, customer);
  for (const id of new Set([...customers.keys(), ...ids.customers])) {
    for (const service of await directory.listServices(id)) services.set(service.id, service);
    for (const user of await directory.listUsers(id)) users.set(user.id, user);
    for (const { token } of await tokens.listOfUser(globalApiTokenUser(id, 0).id)) {
      legacyKeys.set(token.digest, token);
    }
  }
  const declared = await tokens.listDeclared();
  const declaredTokens = new Map(declared.map(({ token }) => [token.id, token]));
  return { customers, services, users, legacyKeys, declaredTokens };
}

async function newTokens(
  store: PlannedStore,
  declared: ReadonlyMap<string, Token>,
  known: ReadonlyMap<string, Token>,
): Promise<Token[]> {
  const fresh = new Set(await store.tokens.filterNewDigests([...declared.keys()]));
  return [...declared.values()].flatMap((token) => {
    const before = known.get(token.digest);
    if (isMoved(before, token)) return [withLimitsOf(before, token)];
    return fresh.has(token.digest) ? [token] : [];
  });
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

/** Users or tokens written in one step, which takes tens of milliseconds and keeps others from writing. */
export const STEP = 500;

/**
 * Splits a large change. The first step has everything that a concurrent change can make fail: removals, and
 * logins that change hands. The others only add records or update single users.
 */
function stepsOf(changes: Changes, known: ReadonlyMap<string, User>): Changes[] {
  const { users = [], tokens = [], declared = [], removeCustomers, ...rest } = changes;
  const unless = (some: readonly User[], removed: readonly string[] = []): Changes => ({
    users: some,
    basedOn: new Map(
      [...some.map(({ id }) => id), ...removed].map((id) => [id, known.get(id)?.updatedAt ?? null]),
    ),
  });
  if (Math.max(users.length, tokens.length, declared.length) <= STEP)
    return [{ ...changes, ...unless(users, changes.removeUsers) }];
  const isRenamed = ({ id, login }: User): boolean => {
    const before = known.get(id);
    return before !== undefined && loginKey(before.login) !== loginKey(login);
  };
  return [
    { ...rest, ...unless(users.filter(isRenamed), rest.removeUsers) },
    ...partsOf(
      users.filter((user) => !isRenamed(user)),
      STEP,
    ).map((some) => unless(some)),
    ...partsOf(tokens, STEP).map((some) => ({ tokens: some })),
    ...partsOf(declared, STEP).map((some) => ({ declared: some })),
    { removeCustomers: removeCustomers ?? [] },
  ];
}
