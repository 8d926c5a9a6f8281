import { chmodSync } from 'node:fs';
import { join } from 'node:path';
import { type Database, open, type RootDatabase } from 'lmdb';
import { makeFolder } from '../../files/make-folder.js';
import type { RecordedLogout } from '../../domain/provider-logout.js';
import type { Session } from '../../domain/session.js';
import type { SigningKeys } from '../../domain/signing-key.js';
import type { EpochMs } from '../../util/time.js';
import type { Token, TokenUse } from '../../domain/token.js';
import type { Customer, Service, User } from '../../domain/user.js';
import type { AttemptCount } from '../login-throttle-store.js';
import type { Stored } from '../records.js';
import { StoreUnavailable } from '../faults.js';
import { MAX_PROCESSES, OpeningLock } from './opening-lock.js';
import { Outbox } from './outbox.js';
import { refuseForbidden, unopened } from './unopened.js';
import { refuseDamaged } from './verify.js';

/** Version of the layout below. A newer one is refused. */
const FORMAT = 1;
/** Highest cost of any password hash ever written. */
export const PASSWORD_COST = 'password_cost';
const FROM_BACKUP = 'restore it from a backup, or remove data.mdb if the store never held anything';
/** Exists while records of another store are being written. */
export const RESTORING = 'restoring';

/** An address from which an account logged in, by its digest. */
export interface KnownAddress {
  readonly address: string;
  /** When it expires. */
  readonly until: EpochMs;
}

/** A logout that a provider reported. */
export interface StoredLogout extends Omit<RecordedLogout, 'name'> {
  /** When it expires. */
  readonly until: EpochMs;
}

/** The kinds of records in the expiry index. */
export type Expiring = 'token' | 'session' | 'failure' | 'sudo' | 'known' | 'logout';

/**
 * The databases of one LMDB environment. Indexes hold `true`; their keys contain what they index.
 */
export interface Databases {
  readonly root: RootDatabase;
  /** Held while the environment is opened and during each write. */
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
  /** Login attempts by the key of their limit. */
  readonly attempts: Database<Stored<AttemptCount>, string>;
  readonly knownAddresses: Database<Stored<{ readonly addresses: readonly KnownAddress[] }>, string>;
  /** Provider logouts by name. */
  readonly logouts: Database<Stored<StoredLogout>, string>;
  /** `[userId, id of a token or session]` */
  readonly sudoGrants: Database<Stored<{ readonly until: EpochMs }>, [string, string]>;
  /** The number of writes of a user in the latest counted hour. */
  readonly writes: Database<{ readonly hour: EpochMs; readonly count: number }, string>;
  /**
   * Buckets of request rates by token id, as `takeFrom` returns them, until they are full again.
   */
  readonly rates: Database<number, string>;
  /** The expiry whose warning was claimed, by token id. */
  readonly warned: Database<EpochMs, string>;
  /** `[customerId, serviceId]` */
  readonly servicesOf: Database<true, [string, string]>;
  /** `[customerId, userId]` */
  readonly usersOf: Database<true, [string, string]>;
  /** Ids of users whose deletion is pending. */
  readonly pendingDeletions: Database<true, string>;
  /** `[userId, tokenId]`: when the token expires, null for never */
  readonly tokensOf: Database<EpochMs | null, [string, string]>;
  /** `[userId, session digest]` */
  readonly sessionsOf: Database<true, [string, string]>;
  /** `[time, kind, key]`, ordered by time */
  readonly expiry: Database<true, [number, Expiring, string]>;
  /** When the overlap of a rotated token ends, by token id. */
  readonly overlaps: Database<EpochMs, string>;
  /** Ids of the tokens that a rotation created. */
  readonly successors: Database<true, string>;
  /** Ids of the tokens that a directory file declares. */
  readonly declared: Database<true, string>;
  /**
   * Digests of revoked legacy keys and names of revoked declared tokens; none can be added again.
   */
  readonly revoked: Database<true, string>;
  /** Recently ended or changed credentials, by an increasing number (`ended-log.ts`). */
  readonly ended: Database<string, number>;
  /** One record with all keys. */
  readonly signingKeys: Database<Stored<SigningKeys>, string>;
  readonly meta: Database<number, string | Uint8Array>;
  /** The webhook queue. */
  readonly outbox: Outbox;
}

/** Opens the environment in a folder, which is created (mode 0700) if missing. */
export function openDatabases(path: string): Databases {
  let openingLock: OpeningLock;
  try {
    makeFolder(path, 0o700);
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
    const files = ['data.mdb', 'lock.mdb'].map((name) => join(path, name));
    files.forEach(refuseForbidden);
    refuseDamaged(join(path, 'data.mdb'), false, FROM_BACKUP);
    // Without overlapping sync, a commit returns once it is on disk. That is what
    // acknowledging a write means here.
    root = open({
      path,
      maxDbs: 32,
      overlappingSync: false,
      noSubdir: false,
      maxReaders: MAX_PROCESSES,
    });
    for (const file of files) chmodSync(file, 0o600);
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
    successors: db('tokens_by_rotation'),
    declared: db('declared_tokens'),
    revoked: db('revoked_legacy_keys'),
    ended: db('ended'),
    signingKeys: db('signing_keys'),
    meta: db('meta'),
    outbox: new Outbox(db('webhooks')),
  };
  checkFormat(databases, path);
  return databases;
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

/**
 * Maximum length of a key to look up, in bytes. LMDB allows 1978 and fails on longer ones. No id or
 * login is longer, so such a key cannot exist.
 */
const MAX_KEY = 1_024;

/** Whether a record can exist under a key, which a client may have sent. */
export function isKey(key: string): boolean {
  return key.length <= MAX_KEY && Buffer.byteLength(key) <= MAX_KEY;
}

/** Returns the range of index keys with a first part; undefined if no key can have it. */
export function indexRange(first: string): { start: [string, string]; end: [string, string] } | undefined {
  // Ids are ASCII, so U+FFFF sorts after all of them.
  return isKey(first) ? { start: [first, ''], end: [first, '\uffff'] } : undefined;
}

/** Counts the index keys with a first part. */
export function countIndex(index: Database<unknown, [string, string]>, first: string): number {
  const range = indexRange(first);
  return range === undefined ? 0 : index.getKeysCount(range);
}

/**
 * Lists the second parts of index keys with a first part. There are few, so they are read at once.
 */
export function listIndex(index: Database<unknown, [string, string]>, first: string): string[] {
  const range = indexRange(first);
  return range === undefined ? [] : [...index.getKeys(range)].map(([, second]) => second);
}
