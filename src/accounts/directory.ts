import { derivedId, digestFromHex, digestOf } from '../domain/secret.js';
import type { EpochMs } from '../domain/time.js';
import type { Token } from '../domain/token.js';
import { type Customer, GLOBAL_API_TOKEN, type Service, type User } from '../domain/user.js';
import type { ChangeRefused, Changes, Store } from '../store/store.js';
import type { Passwords } from './passwords.js';
import type { Sealer } from './sealing.js';

/** What a directory file declares. */
export interface Directory {
  readonly customers: readonly Customer[];
  readonly services: readonly { readonly id: string; readonly customer_id: string; readonly name: string }[];
  readonly users: readonly DirectoryUser[];
  readonly legacy_keys: readonly LegacyKey[];
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

/** A legacy key, plain or as its SHA-256 in hexadecimal. */
export interface LegacyKey {
  readonly customer_id: string;
  readonly key?: string | null | undefined;
  readonly key_sha256?: string | null | undefined;
}

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

  /** Returns why nothing was changed, or undefined when the store is as declared. */
  async apply(directory: Directory, now: EpochMs): Promise<ChangeRefused | undefined> {
    return this.#store.change(await this.plan(directory, now), now);
  }

  /** Works out what differs. A record that is as declared is not part of the changes. */
  async plan(directory: Directory, now: EpochMs): Promise<Changes> {
    const known = await this.#readStore();
    const legacyOwners = new Set(directory.legacy_keys.map((key) => key.customer_id));
    const customers = directory.customers.filter((c) => known.customers.get(c.id)?.name !== c.name);
    const services = directory.services
      .map((s): Service => ({ id: s.id, customerId: s.customer_id, name: s.name }))
      .filter((s) => !isSameService(known.services.get(s.id), s));
    const users = await this.#changedUsers(directory.users, known.users, now);
    for (const customerId of legacyOwners) {
      const user = globalApiTokenUser(customerId, now);
      if (!known.users.has(user.id)) users.push(user);
    }
    const declared = idSets(directory);
    return {
      customers: customers.map(({ id, name }) => ({ id, name })),
      services,
      users,
      tokens: directory.legacy_keys.map((key) => legacyToken(key, now)),
      removeUsers: [...known.users.values()]
        .filter((user) => !declared.users.has(user.id) && !isKeptSynthetic(user, declared.customers))
        .map((user) => user.id),
      removeServices: [...known.services.keys()].filter((id) => !declared.services.has(id)),
      removeCustomers: [...known.customers.keys()].filter((id) => !declared.customers.has(id)),
    };
  }

  async #readStore() {
    const customers = new Map<string, Customer>();
    const services = new Map<string, Service>();
    const users = new Map<string, User>();
    for (const customer of await this.#store.listCustomers()) {
      customers.set(customer.id, customer);
      for (const service of await this.#store.listServices(customer.id)) services.set(service.id, service);
      for (const user of await this.#store.listUsers(customer.id)) users.set(user.id, user);
    }
    return { customers, services, users };
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
        locked: entry.locked,
        createdAt: before?.createdAt ?? now,
        updatedAt: now,
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

/** The user who owns a customer's migrated legacy keys: no password, so it can't log in. */
export function globalApiTokenUser(customerId: string, now: EpochMs): User {
  return {
    id: derivedId('global-api-token', customerId),
    customerId,
    login: `global-api-token+${customerId}`,
    name: GLOBAL_API_TOKEN,
    role: 'superuser',
    passwordHash: null,
    otpSecret: null,
    locked: false,
    createdAt: now,
    updatedAt: now,
  };
}

function legacyToken(entry: LegacyKey, now: EpochMs): Token {
  const digest = entry.key == null ? digestFromHex(entry.key_sha256 ?? '') : digestOf(entry.key);
  const createdAt = Math.floor(now / 1000) * 1000;
  return {
    id: derivedId('legacy-key', digest),
    digest,
    kind: 'legacy_key',
    userId: globalApiTokenUser(entry.customer_id, now).id,
    customerId: entry.customer_id,
    name: GLOBAL_API_TOKEN,
    scopes: ['global'],
    services: [],
    serviceId: null,
    createdAt,
    updatedAt: createdAt,
    expiresAt: null,
  };
}

function isKeptSynthetic(user: User, customers: ReadonlySet<string>): boolean {
  return user.id === globalApiTokenUser(user.customerId, 0).id && customers.has(user.customerId);
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

function isSameUser(a: User, b: User): boolean {
  return (
    a.customerId === b.customerId &&
    a.login === b.login &&
    a.name === b.name &&
    a.role === b.role &&
    a.passwordHash === b.passwordHash &&
    a.otpSecret === b.otpSecret &&
    a.locked === b.locked
  );
}
