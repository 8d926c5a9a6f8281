import type { EpochMs } from '../domain/time.js';
import type { Token } from '../domain/token.js';
import { type Customer, isSameUser, lockOf, type Service, type User } from '../domain/user.js';
import type { ChangeRefused, Changes, Store } from '../store/store.js';
import { type Difference, differencesOf } from './directory-differences.js';
import { globalApiTokenUser, isGlobalApiTokenUser, type LegacyKey, legacyToken } from './legacy-keys.js';
import type { Passwords } from './passwords.js';
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
  /** Empty when the store is as declared. */
  readonly differences: readonly Difference[];
}

/** Everything of the store that a directory file can declare, by id. */
export interface Known {
  readonly customers: ReadonlyMap<string, Customer>;
  readonly services: ReadonlyMap<string, Service>;
  readonly users: ReadonlyMap<string, User>;
  /** Legacy keys by digest. */
  readonly legacyKeys: ReadonlyMap<string, Token>;
}

/** Somebody may change a user between the plan and the write; then it is worked out anew, this often. */
const MAX_TRIES = 3;

/** Brings the store to what a directory declares: all of it, or nothing. */
export class DirectoryApplier {
  readonly #store: Store;
  readonly #passwords: Passwords;
  readonly #sealer: Sealer;

  constructor(store: Store, passwords: Passwords, sealer: Sealer) {
    this.#store = store;
    this.#passwords = passwords;
    this.#sealer = sealer;
  }

  /** Writes what differs. Returns that, or why nothing was changed. */
  async apply(directory: Directory, now: EpochMs): Promise<Plan | { readonly refused: ChangeRefused }> {
    for (let tries = 1; ; tries++) {
      const plan = await this.plan(directory, now);
      if (plan.differences.length === 0) return plan;
      const refused = await this.#store.change(plan.changes, now);
      if (refused === undefined) return plan;
      if (refused.reason !== 'changed_meanwhile' || tries === MAX_TRIES) return { refused };
    }
  }

  /** Works out what differs. A record that is as declared is not part of it. */
  async plan(directory: Directory, now: EpochMs): Promise<Plan> {
    const known = await this.#readStore();
    const declared = idSets(directory);
    const users = await this.#changedUsers(directory.users, known.users, now);
    for (const user of keyOwners(directory, now)) if (!known.users.has(user.id)) users.push(user);
    const removeUsers = [...known.users.values()].filter(
      (user) =>
        !declared.users.has(user.id) &&
        !(isGlobalApiTokenUser(user) && declared.customers.has(user.customerId)),
    );
    const keys = legacyTokens(directory, now);
    const changes: Changes = {
      customers: directory.customers
        .filter((c) => known.customers.get(c.id)?.name !== c.name)
        .map(({ id, name }) => ({ id, name })),
      services: directory.services
        .map((s): Service => ({ id: s.id, customerId: s.customer_id, name: s.name }))
        .filter((s) => !isSameService(known.services.get(s.id), s)),
      users,
      tokens: await this.#newTokens(keys, known.legacyKeys),
      removeTokens: directory.legacy_keys === undefined ? [] : staleKeys(keys, known.legacyKeys),
      removeUsers: removeUsers.map(({ id }) => id),
      removeServices: [...known.services.keys()].filter((id) => !declared.services.has(id)),
      removeCustomers: [...known.customers.keys()].filter((id) => !declared.customers.has(id)),
      basedOn: new Map(
        [...users, ...removeUsers].map(({ id }) => [id, known.users.get(id)?.updatedAt ?? null]),
      ),
    };
    return { changes, differences: differencesOf(changes, known) };
  }

  async #readStore(): Promise<Known> {
    const customers = new Map<string, Customer>();
    const services = new Map<string, Service>();
    const users = new Map<string, User>();
    const legacyKeys = new Map<string, Token>();
    for (const customer of await this.#store.listCustomers()) {
      customers.set(customer.id, customer);
      for (const service of await this.#store.listServices(customer.id)) services.set(service.id, service);
      for (const user of await this.#store.listUsers(customer.id)) users.set(user.id, user);
      for (const { token } of await this.#store.listTokensOfUser(globalApiTokenUser(customer.id, 0).id)) {
        legacyKeys.set(token.digest, token);
      }
    }
    return { customers, services, users, legacyKeys };
  }

  async #newTokens(
    declared: ReadonlyMap<string, Token>,
    known: ReadonlyMap<string, Token>,
  ): Promise<Token[]> {
    const fresh = new Set(await this.#store.filterNewDigests([...declared.keys()]));
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
    for (const entry of declared) {
      const before = known.get(entry.id);
      const user: User = {
        id: entry.id,
        customerId: entry.customer_id,
        login: entry.login,
        name: entry.name,
        role: entry.role,
        passwordHash: await this.#passwordHash(entry, before),
        otpSecret: this.#otpSecret(entry, before),
        ...lockOf(entry.locked, before),
        createdAt: before?.createdAt ?? now,
        updatedAt: Math.max(now, (before?.updatedAt ?? 0) + 1),
      };
      if (before === undefined || !isSameUser(before, user)) changed.push(user);
    }
    return changed;
  }

  async #passwordHash(entry: DirectoryUser, before: User | undefined): Promise<string | null> {
    if (entry.password == null) return entry.password_hash ?? null;
    const old = before?.passwordHash ?? null;
    if (old !== null && (await this.#passwords.verify(old, entry.password))) return old;
    return this.#passwords.hash(entry.password);
  }

  #otpSecret(entry: DirectoryUser, before: User | undefined): string | null {
    if (entry.otp_secret == null) return null;
    const old = before?.otpSecret ?? null;
    if (old !== null && this.#sealer.open(old, entry.id) === entry.otp_secret) return old;
    return this.#sealer.seal(entry.otp_secret, entry.id);
  }
}

function keyOwners({ legacy_keys: keys = [] }: Directory, now: EpochMs): User[] {
  const customers = new Set(keys.map((key) => key.customer_id));
  return [...customers].map((id) => globalApiTokenUser(id, now));
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

function isMoved(before: Token | undefined, after: Token | undefined): boolean {
  return before !== undefined && after !== undefined && before.customerId !== after.customerId;
}

function idSets(directory: Directory) {
  return {
    customers: new Set(directory.customers.map((c) => c.id)),
    services: new Set(directory.services.map((s) => s.id)),
    users: new Set(directory.users.map((u) => u.id)),
  };
}

function isSameService(a: Service | undefined, b: Service): boolean {
  return a !== undefined && a.customerId === b.customerId && a.name === b.name;
}
