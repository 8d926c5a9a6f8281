import { chmodSync, mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { type Database, open, type RootDatabase } from 'lmdb';
import { randomInt } from 'node:crypto';
import type { NotedLogout } from '../../domain/provider-logout.js';
import type { Session } from '../../domain/session.js';
import type { SigningKeys } from '../../domain/signing-key.js';
import type { EpochMs } from '../../domain/time.js';
import type { Token, TokenUse } from '../../domain/token.js';
import type { Customer, Service, User } from '../../domain/user.js';
import { costOfHash } from '../../domain/password-cost.js';
import type { AttemptCount } from '../login-throttle-store.js';
import type { Stored } from '../records.js';
import { StoreUnavailable } from '../faults.js';
import { OpeningLock } from './opening-lock.js';
import { Outbox } from './outbox.js';
import { faultOfDataFile } from './verify.js';

/** Version of the layout below. A newer one is refused. */
const FORMAT = 1;
/** What the costliest password hash takes that was ever written. */
export const PASSWORD_COST = 'password_cost';
/** Exists while records of another store are being written. */
export const RESTORING = 'restoring';

/** An address that an account logged in from, by its digest. */
export interface KnownAddress {
  readonly address: string;
  /** When it is forgotten. */
  readonly until: EpochMs;
}

/** A logout that a provider reported. */
export interface StoredLogout extends Omit<NotedLogout, 'name'> {
  /** When it is forgotten. */
  readonly until: EpochMs;
}

/** What the expiry index points at. */
export type Expiring = 'token' | 'session' | 'failure' | 'sudo' | 'known' | 'logout';

/** The databases in one LMDB environment. Indexes hold `true`; what they index is in their keys. */
export interface Databases {
  readonly root: RootDatabase;
  /** Held while the environment is opened, and for each write. */
  readonly openingLock: OpeningLock;
  readonly customers: Database<Stored<Customer>, string>;
  readonly services: Database<Stored<Service>, string>;
  readonly users: Database<Stored<User>, string>;
  readonly logins: Database<string, string>;
  readonly tokens: Database<Stored<Token>, string>;
  readonly tokenIds: Database<string, string>;
  readonly uses: Database<Stored<TokenUse>, string>;
  readonly sessions: Database<Stored<Session>, string>;
  readonly otpSteps: Database<number, string>;
  /** Login attempts by what they are counted under. */
  readonly attempts: Database<Stored<AttemptCount>, string>;
  readonly knownAddresses: Database<Stored<{ readonly addresses: readonly KnownAddress[] }>, string>;
  /** Logouts of providers by their names. */
  readonly logouts: Database<Stored<StoredLogout>, string>;
  /** `[userId, id of a token or session]` */
  readonly sudoGrants: Database<Stored<{ readonly until: EpochMs }>, [string, string]>;
  /** Writes of a user in the hour that was counted last. */
  readonly writes: Database<{ readonly hour: EpochMs; readonly count: number }, string>;
  /** Buckets of request rates by a token's id, as `takeFrom` leaves them, until they are full again. */
  readonly rates: Database<number, string>;
  /** Ids of tokens of whose expiry was told. */
  readonly warned: Database<EpochMs, string>;
  /** `[customerId, serviceId]` */
  readonly servicesOf: Database<true, [string, string]>;
  /** `[customerId, userId]` */
  readonly usersOf: Database<true, [string, string]>;
  /** Ids of users whose deletion is pending. */
  readonly pendingDeletions: Database<true, string>;
  /** `[userId, tokenId]`, with when the token expires, null for never. What an older Latchkey wrote has `true`. */
  readonly tokensOf: Database<EpochMs | null | true, [string, string]>;
  /** `[userId, session digest]` */
  readonly sessionsOf: Database<true, [string, string]>;
  /** `[time, kind, key]`, ordered by time */
  readonly expiry: Database<true, [number, Expiring, string]>;
  /** Rotated tokens by id, with when their overlap ends. */
  readonly overlaps: Database<EpochMs, string>;
  /** Ids of the tokens that a directory file declares. */
  readonly declared: Database<true, string>;
  /** Digests of legacy keys, and names of declared tokens, that were revoked, so that none comes back. */
  readonly revoked: Database<true, string>;
  /** What ended lately, by a number that grows (`ended-log.ts`). */
  readonly ended: Database<string, number>;
  /** One record with all keys. */
  readonly signingKeys: Database<Stored<SigningKeys>, string>;
  readonly meta: Database<number, string | Uint8Array>;
  /** Webhooks that wait to be sent. */
  readonly outbox: Outbox;
}

/** Opens the environment in a folder, making it (mode 0700) the first time. */
export function openDatabases(path: string): Databases {
  let openingLock: OpeningLock;
  try {
    mkdirSync(path, { recursive: true, mode: 0o700 });
    openingLock = new OpeningLock(path);
  } catch (cause) {
    throw unopened(path, cause);
  }
  try {
    return openingLock.hold(() => openUnderLock(path, openingLock));
  } catch (error) {
    void openingLock.close();
    throw error;
  }
}

function openUnderLock(path: string, openingLock: OpeningLock): Databases {
  let root: RootDatabase;
  try {
    const fault = faultOfDataFile(join(path, 'data.mdb'));
    if (fault !== undefined) throw new Error(fault);
    // Without overlapping sync a commit returns when it is on disk, which is what an acknowledgement means here.
    root = open({ path, maxDbs: 32, overlappingSync: false, noSubdir: false });
    for (const file of ['data.mdb', 'lock.mdb']) chmodSync(join(path, file), 0o600);
  } catch (cause) {
    throw unopened(path, cause);
  }
  const db = <V, K extends string | number | Uint8Array | [string, string] | [number, Expiring, string]>(
    name: string,
  ) => root.openDB<V, K>(name, {});
  const databases: Databases = {
    root,
    openingLock,
    customers: db('customers'),
    services: db('services'),
    users: db('users'),
    logins: db('logins'),
    tokens: db('tokens'),
    tokenIds: db('token_ids'),
    uses: db('uses'),
    sessions: db('sessions'),
    otpSteps: db('otp_steps'),
    attempts: db('login_failures'),
    knownAddresses: db('known_addresses'),
    logouts: db('provider_logouts'),
    sudoGrants: db('sudos'),
    writes: db('writes_in_hour'),
    rates: db('rates_of_tokens'),
    warned: db('expiry_warnings'),
    servicesOf: db('services_of_customer'),
    usersOf: db('users_of_customer'),
    pendingDeletions: db('pending_deletions'),
    tokensOf: db('tokens_of_user'),
    sessionsOf: db('sessions_of_user'),
    expiry: db('expiry'),
    overlaps: db('overlaps'),
    declared: db('declared_tokens'),
    revoked: db('revoked_legacy_keys'),
    ended: db('ended'),
    signingKeys: db('signing_keys'),
    meta: db('meta'),
    outbox: new Outbox(db('webhooks')),
  };
  checkFormat(databases, path);
  completeMeta(databases);
  return databases;
}

function unopened(path: string, cause: unknown): StoreUnavailable {
  const reason = cause instanceof Error ? cause.message : String(cause);
  return new StoreUnavailable(`${path} cannot be opened as a store (${reason}); restore it from a backup`, {
    cause,
  });
}

function checkFormat({ root, meta }: Databases, path: string): void {
  const format = meta.get('format');
  if (format === FORMAT) return;
  if (format !== undefined) {
    throw new StoreUnavailable(
      `${path} was written by a newer Latchkey (format ${format}, known: ${FORMAT}); update this one`,
    );
  }
  root.transactionSync(() => meta.putSync('format', FORMAT));
}

/** Adds what an older version did not keep; on a full disk that is left to the next start. */
function completeMeta(databases: Databases): void {
  const { root, meta } = databases;
  if (meta.doesExist(PASSWORD_COST) && storeId(databases) !== undefined) return;
  try {
    root.transactionSync(() => {
      if (!meta.doesExist(PASSWORD_COST)) meta.putSync(PASSWORD_COST, highestCost(databases));
      if (storeId(databases) === undefined) putStoreId(databases);
    });
  } catch {
    // Reads have to go on, and unknown logins cost what new passwords cost.
  }
}

function highestCost({ users }: Databases): number {
  let cost = 0;
  for (const { value } of users.getRange()) cost = Math.max(cost, costOfHash(value.passwordHash));
  return cost;
}

/** LMDB takes keys of 1978 bytes. What is longer than any id or login can't be there, and to ask for it would be a fault. */
const MAX_KEY = 1_024;

/** Whether something can be there under a key that somebody may have sent. */
export function isKey(key: string): boolean {
  return key.length <= MAX_KEY && Buffer.byteLength(key) <= MAX_KEY;
}

/** The keys of an index that have that first part; undefined for one that none can have. */
export function indexRange(first: string): { start: [string, string]; end: [string, string] } | undefined {
  // Ids are ASCII, so U+FFFF sorts behind all of them.
  return isKey(first) ? { start: [first, ''], end: [first, '\uffff'] } : undefined;
}

/** How many keys of an index have that first part. */
export function countIndex(index: Database<unknown, [string, string]>, first: string): number {
  const range = indexRange(first);
  return range === undefined ? 0 : index.getKeysCount(range);
}

/** The second parts of an index's keys under one first part, of which there are few: read at once. */
export function listIndex(index: Database<unknown, [string, string]>, first: string): string[] {
  const range = indexRange(first);
  return range === undefined ? [] : [...index.getKeys(range)].map(([, second]) => second);
}

const STORE_ID = 'store_id';
const LIMIT = 2 ** 47;

/** The number that tells a store and its copies from other stores; undefined when it has none yet. */
export function storeId({
  meta,
}: {
  readonly meta: Database<number, string | Uint8Array>;
}): number | undefined {
  return meta.get(STORE_ID);
}

/** Gives a store its number, inside a transaction. */
function putStoreId({ meta }: { readonly meta: Database<number, string | Uint8Array> }): void {
  meta.putSync(STORE_ID, randomInt(1, LIMIT));
}
