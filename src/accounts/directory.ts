import { setImmediate } from 'node:timers/promises';
import { digestOf } from '../domain/secret.js';
import type { EpochMs } from '../domain/time.js';
import type { Token } from '../domain/token.js';
import { type Customer, isSameUser, lockOf, loginKey, type Service, type User } from '../domain/user.js';
import type { ChangeRefused, Changes } from '../store/directory-store.js';
import { OutcomeUnknown, StoreUnavailable } from '../store/faults.js';
import type { Store } from '../store/store.js';
import { type Difference, differencesOf, type Known } from './directory-differences.js';
import { SLICE, slicesOf } from './directory-slices.js';
import { globalApiTokenUser, isGlobalApiTokenUser, type LegacyKey, legacyToken } from './legacy-keys.js';
import type { Passwords } from './passwords.js';
import { hasActiveTokens, pendingDeletionOf } from './pending-deletions.js';
import { isPassingRefusal } from './refused-change.js';
import type { Sealer } from './sealing.js';

/** What a directory file declares. */
export interface Directory {
  readonly customers: readonly Customer[];
  readonly services: readonly { readonly id: string; readonly customer_id: string; readonly name: string }[];
  readonly users: readonly DirectoryUser[];
  /** Absent: the legacy keys in the store are left as they are. */
  readonly legacy_keys?: readonly LegacyKey[] | undefined;
}

/** A user of a directory file; `password` or `password_hash`, or neither for one who can't log in. */
export interface DirectoryUser {
  readonly id: string;
  readonly customer_id: string;
  readonly login: string;
  readonly name: string;
  readonly role: string;
  readonly password_hash?: string | null | undefined;
  readonly password?: string | null | undefined;
  readonly otp_secret?: string | null | undefined;
  readonly locked: boolean;
}

/** What has to be written to bring the store to a directory, and the same for people. */
export interface Plan {
  readonly changes: Changes;
  /** The same in the steps in which it is written; none when there is nothing to write. */
  readonly slices: readonly Changes[];
  /** Empty when the store is as declared. */
  readonly differences: readonly Difference[];
  /** Ids of users that the directory does not name and whose active tokens keep them from being deleted. */
  readonly pendingDeletions: readonly string[];
}

/** Somebody may change a user between the plan and the write; then it is worked out anew, this often. */
const MAX_TRIES = 3;

/** Whether a directory was applied is not known, or only a part of it was. */
export class DirectoryUnconfirmed extends OutcomeUnknown {
  /** What may have been written. */
  readonly differences: readonly Difference[];

  constructor(cause: StoreUnavailable, differences: readonly Difference[], partly: boolean) {
    super(partly ? `${cause.message}; a part of it was` : cause.message, { cause });
    this.differences = differences;
  }
}

/** Others wrote at the same time, again and again. */
export interface NotApplied {
  readonly refused: ChangeRefused;
  /** Whether parts of a large directory were written before. */
  readonly partly: boolean;
  /** What was to be written. */
  readonly differences: readonly Difference[];
}

/**
 * Brings the store to what a directory declares: all of it, or nothing. Between the slices of a large one others are
 * served, and read some of it before the rest is written.
 */
export class DirectoryApplier {
  readonly #store: Pick<Store, 'tokens' | 'directory'>;
  readonly #passwords: Passwords;
  readonly #sealer: Sealer;

  constructor(store: Pick<Store, 'tokens' | 'directory'>, passwords: Passwords, sealer: Sealer) {
    this.#store = store;
    this.#passwords = passwords;
    this.#sealer = sealer;
  }

  /** Writes what differs. Returns that, or why it could not be written. @throws DirectoryUnconfirmed, StoreUnavailable */
  async apply(directory: Directory, now: EpochMs): Promise<Plan | NotApplied> {
    let partly = false;
    for (let tries = 1; ; tries++) {
      const plan = await this.plan(directory, now);
      let refused: ChangeRefused | undefined;
      for (const slice of plan.slices) {
        refused = await this.#store.directory.change(slice, now).catch((error: unknown) => {
          const mayBeThere = error instanceof StoreUnavailable && (partly || error instanceof OutcomeUnknown);
          throw mayBeThere ? new DirectoryUnconfirmed(error, plan.differences, partly) : error;
        });
        if (refused !== undefined) break;
        partly = true;
        await setImmediate();
      }
      if (refused === undefined) return plan;
      if (!isPassingRefusal(refused) || tries === MAX_TRIES)
        return { refused, partly, differences: plan.differences };
    }
  }

  /** Works out what differs. A record that is as declared is not part of it. */
  async plan(directory: Directory, now: EpochMs): Promise<Plan> {
    const known = await this.#readStore();
    const declared = idSets(directory);
    const users = await this.#changedUsers(directory.users, known.users, now);
    users.push(...changedKeyOwners(directory, known.users, now));
    const keys = legacyTokens(directory, now);
    const removeTokens = directory.legacy_keys === undefined ? [] : staleKeys(keys, known.legacyKeys);
    const undeclared = [...known.users.values()].filter(
      (user) =>
        !declared.users.has(user.id) &&
        !(isGlobalApiTokenUser(user) && declared.customers.has(user.customerId)),
    );
    const pending = await this.#withActiveTokens(undeclared, removeTokens, now);
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
      slices: differences.length === 0 ? [] : slicesOf(changes, known.users),
      differences,
      pendingDeletions: pending.map(({ id }) => id),
    };
  }

  async #withActiveTokens(users: readonly User[], going: readonly string[], now: EpochMs): Promise<User[]> {
    const ids = new Set(going);
    const found: User[] = [];
    for (const user of users)
      if (await hasActiveTokens(this.#store.tokens, user.id, now, ({ id }) => ids.has(id))) found.push(user);
    return found;
  }

  async #readStore(): Promise<Known> {
    const customers = new Map<string, Customer>();
    const services = new Map<string, Service>();
    const users = new Map<string, User>();
    const legacyKeys = new Map<string, Token>();
    for (const customer of await this.#store.directory.listCustomers()) {
      customers.set(customer.id, customer);
      for (const service of await this.#store.directory.listServices(customer.id))
        services.set(service.id, service);
      for (const user of await this.#store.directory.listUsers(customer.id)) users.set(user.id, user);
      for (const { token } of await this.#store.tokens.listOfUser(globalApiTokenUser(customer.id, 0).id)) {
        legacyKeys.set(token.digest, token);
      }
    }
    return { customers, services, users, legacyKeys };
  }

  async #newTokens(
    declared: ReadonlyMap<string, Token>,
    known: ReadonlyMap<string, Token>,
  ): Promise<Token[]> {
    const fresh = new Set(await this.#store.tokens.filterNewDigests([...declared.keys()]));
    return [...declared.values()].filter(
      (token) => fresh.has(token.digest) || isMoved(known.get(token.digest), token),
    );
  }

  async #changedUsers(
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

/** The owners of legacy keys to add, and those that were to be deleted with a customer that is declared again. */
function changedKeyOwners(
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

/** The tokens of the declared legacy keys, by digest. */
function legacyTokens({ legacy_keys: keys = [] }: Directory, now: EpochMs): Map<string, Token> {
  const owners = new Map<string, string>();
  const tokens = new Map<string, Token>();
  for (const key of keys) {
    let owner = owners.get(key.customer_id);
    if (owner === undefined)
      owners.set(key.customer_id, (owner = globalApiTokenUser(key.customer_id, now).id));
    const token = legacyToken(key, owner, now);
    tokens.set(token.digest, token);
  }
  return tokens;
}

/** Ids of the tokens of legacy keys that are not declared any more, or for another customer. */
function staleKeys(declared: ReadonlyMap<string, Token>, known: ReadonlyMap<string, Token>): string[] {
  return [...known.values()]
    .filter((token) => !declared.has(token.digest) || isMoved(token, declared.get(token.digest)))
    .map(({ id }) => id);
}

/** Whether a legacy key is another customer's: each customer has an owner of its keys. */
function isMoved(before: Token | undefined, after: Token | undefined): boolean {
  return before !== undefined && after !== undefined && before.userId !== after.userId;
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
