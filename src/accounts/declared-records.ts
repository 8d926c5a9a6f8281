import type { DirectoryFile } from '../config/schema/directory-file.js';
import { setImmediate } from 'node:timers/promises';
import { derivedId, digestFromHex, digestOf } from '../domain/secret.js';
import { type EpochMs, wholeSecond } from '../util/time.js';
import { GLOBAL_API_TOKEN, isSameUser, KEY_OWNER_LOGIN, lockOf, type User } from '../domain/user.js';
import type { Passwords } from './passwords.js';
import type { Sealer } from './sealing.js';
import { isDeepStrictEqual } from 'node:util';
import { isExpired, restrictedTo, type Token } from '../domain/token.js';
import { namesOfRevoked } from '../store/core/token-records.js';
import type { TokenStore } from '../store/core/tokens.js';
import { restrictionsAfter } from './parameters.js';

/** The contents of a directory file. Without `tokens`, those in the store are revoked. */
export type Directory = Omit<DirectoryFile, 'tokens'> & {
  readonly tokens?: readonly DeclaredToken[];
  /** Milliseconds from when a token is first applied; absent or null: no limit. */
  readonly max_token_lifetime?: number | null;
};

/** Without `password` and `password_hash`, the user cannot log in. */
export type DirectoryUser = DirectoryFile['users'][number];

export type LegacyKey = NonNullable<DirectoryFile['legacy_keys']>[number];

export type DeclaredToken = DirectoryFile['tokens'][number];

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

/**
 * A token or a secret removed from the file is revoked, and stays so when it is declared again.
 * @returns the records to write, the ids to revoke, and the declared ids that stay revoked
 */
export async function planDeclaredTokens(
  { tokens = [], max_token_lifetime: maxLifetime = null }: Directory,
  known: ReadonlyMap<string, Token>,
  store: Pick<TokenStore, 'filterRevoked'>,
  now: EpochMs,
) {
  const records = tokens.map((entry) => recordOf(entry, known.get(entry.id), maxLifetime, now));
  const revoked = new Set(await store.filterRevoked(records.flatMap(namesOfRevoked)));
  const declared = new Map(records.map((record) => [record.id, record]));
  // A secret that one entry gives up is revoked before another entry could declare it.
  for (const before of known.values())
    if (declared.get(before.id)?.digest !== before.digest) revoked.add(before.digest);
  const [staysRevoked, wanted]: [string[], Token[]] = [[], []];
  for (const record of records) {
    if (namesOfRevoked(record).some((name) => revoked.has(name))) staysRevoked.push(record.id);
    else wanted.push(record);
  }
  const kept = new Set(wanted.map(({ id }) => id));
  return {
    put: wanted.filter((record) => isToWrite(record, known.get(record.id), now)),
    revoke: [...known.keys()].filter((id) => !kept.has(id)),
    staysRevoked,
  };
}

function recordOf(
  entry: DeclaredToken,
  before: Token | undefined,
  maxLifetime: number | null,
  now: EpochMs,
): Token {
  const createdAt = before?.createdAt ?? wholeSecond(now);
  // A limit that is introduced later does not shorten existing tokens.
  const limit = maxLifetime === null ? Infinity : wholeSecond(createdAt + maxLifetime);
  const latest = before === undefined ? limit : Math.max(limit, before.expiresAt ?? Infinity);
  const expiresAt = Math.min(entry.expires_at ?? Infinity, latest);
  return {
    id: entry.id,
    digest: digestFromHex(entry.secret_sha256),
    kind: 'token',
    userId: entry.user_id,
    name: entry.name,
    scopes: [...new Set(entry.scope)],
    ...restrictedTo(entry.services ?? []),
    createdAt,
    updatedAt: before === undefined ? createdAt : Math.max(wholeSecond(now), before.updatedAt + 1),
    expiresAt: expiresAt === Infinity ? null : wholeSecond(expiresAt),
    declared: true,
    ...restrictionsOf(entry),
  };
}

function restrictionsOf({ rate, addresses, suspended }: DeclaredToken): Pick<Token, 'restrictions'> {
  const own = addresses === undefined ? undefined : [...new Set(addresses)];
  const restrictions = restrictionsAfter(undefined, { rate, addresses: own, suspended });
  return restrictions === undefined ? {} : { restrictions };
}

/** An expired token is not added: it would soon be removed again. */
function isToWrite(record: Token, before: Token | undefined, now: EpochMs): boolean {
  if (before === undefined) return !isExpired(record, now);
  const { updatedAt: _, ...declared } = record;
  const { updatedAt: __, ...stored } = before;
  return !isDeepStrictEqual(declared, stored);
}

/** The owner of a customer's legacy keys. Without a password, nobody can log in as this user. */
export function globalApiTokenUser(customerId: string, now: EpochMs): User {
  return {
    id: derivedId('global-api-token', customerId),
    customerId,
    login: `${KEY_OWNER_LOGIN}${customerId}`,
    name: GLOBAL_API_TOKEN,
    role: 'superuser',
    passwordHash: null,
    otpSecret: null,
    locked: false,
    createdAt: now,
    updatedAt: now,
  };
}

export function isGlobalApiTokenUser(user: Pick<User, 'id' | 'customerId'>): boolean {
  return user.id === globalApiTokenUser(user.customerId, 0).id;
}

/** The key itself is not stored. */
function legacyToken(entry: LegacyKey, userId: string, now: EpochMs): Token {
  const digest = entry.key == null ? digestFromHex(entry.key_sha256 ?? '') : digestOf(entry.key);
  const createdAt = Math.floor(now / 1000) * 1000;
  return {
    id: derivedId('legacy-key', digest),
    digest,
    kind: 'legacy_key',
    userId,
    name: GLOBAL_API_TOKEN,
    scopes: ['global'],
    services: [],
    serviceId: null,
    createdAt,
    updatedAt: createdAt,
    expiresAt: null,
  };
}

/** By digest. */
export function legacyTokens({ legacy_keys: keys = [] }: Directory, now: EpochMs): Map<string, Token> {
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

/** Returns the ids of keys that are undeclared or declared for another customer. */
export function staleKeys(declared: ReadonlyMap<string, Token>, known: ReadonlyMap<string, Token>): string[] {
  return [...known.values()]
    .filter((token) => !declared.has(token.digest) || isMoved(token, declared.get(token.digest)))
    .map(({ id }) => id);
}

/** A moved key keeps its limits: a suspended one stays so. */
export function withLimitsOf(before: Token | undefined, after: Token): Token {
  return before?.restrictions === undefined ? after : { ...after, restrictions: before.restrictions };
}

/** Each customer has its own owner of keys. */
export function isMoved(before: Token | undefined, after: Token | undefined): boolean {
  return before !== undefined && after !== undefined && before.userId !== after.userId;
}
