import { chmodSync, mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { type Database, open, type RootDatabase } from 'lmdb';
import type { Session } from '../../domain/session.js';
import type { SigningKeys } from '../../domain/signing-key.js';
import type { EpochMs } from '../../domain/time.js';
import type { Token, TokenUse } from '../../domain/token.js';
import type { Customer, Service, User } from '../../domain/user.js';
import type { Stored } from '../records.js';
import { type LoginFailures, StoreUnavailable } from '../store.js';
import { faultOfDataFile } from './verify.js';

/** Version of the layout below. A newer one is refused. */
const FORMAT = 1;

/** A login failure count with the time at which it is forgotten. */
export type FailureRecord = LoginFailures & { readonly forgetAt: EpochMs };

/** What the expiry index points at. */
export type Expiring = 'token' | 'session' | 'failure' | 'sudo';

/** The databases in one LMDB environment. Indexes hold `true`; what they index is in their keys. */
export interface Databases {
  readonly root: RootDatabase;
  readonly customers: Database<Stored<Customer>, string>;
  readonly services: Database<Stored<Service>, string>;
  readonly users: Database<Stored<User>, string>;
  readonly logins: Database<string, string>;
  readonly tokens: Database<Stored<Token>, string>;
  readonly tokenIds: Database<string, string>;
  readonly uses: Database<Stored<TokenUse>, string>;
  readonly sessions: Database<Stored<Session>, string>;
  readonly otpSteps: Database<number, string>;
  readonly failures: Database<Stored<FailureRecord>, string>;
  /** `[userId, id of a token or session]` */
  readonly sudos: Database<Stored<{ readonly until: EpochMs }>, [string, string]>;
  /** Writes of a user in the hour that was counted last. */
  readonly writes: Database<{ readonly hour: EpochMs; readonly count: number }, string>;
  /** `[customerId, serviceId]` */
  readonly servicesOf: Database<true, [string, string]>;
  /** `[customerId, userId]` */
  readonly usersOf: Database<true, [string, string]>;
  /** `[userId, tokenId]` */
  readonly tokensOf: Database<true, [string, string]>;
  /** `[userId, session digest]` */
  readonly sessionsOf: Database<true, [string, string]>;
  /** `[time, kind, key]`, ordered by time */
  readonly expiry: Database<true, [number, Expiring, string]>;
  /** Digests of legacy keys that were revoked, so that none comes back. */
  readonly revoked: Database<true, string>;
  /** One record with all keys. */
  readonly signingKeys: Database<Stored<SigningKeys>, string>;
  readonly meta: Database<number, string | Uint8Array>;
}

/** Opens the environment in a folder, making it (mode 0700) the first time. */
export function openDatabases(path: string): Databases {
  let root: RootDatabase;
  try {
    mkdirSync(path, { recursive: true, mode: 0o700 });
    const fault = faultOfDataFile(join(path, 'data.mdb'));
    if (fault !== undefined) throw new Error(fault);
    // Without overlapping sync a commit returns when it is on disk, which is what an acknowledgement means here.
    root = open({ path, maxDbs: 32, overlappingSync: false, noSubdir: false });
    for (const file of ['data.mdb', 'lock.mdb']) chmodSync(join(path, file), 0o600);
  } catch (cause) {
    const reason = cause instanceof Error ? cause.message : String(cause);
    throw new StoreUnavailable(`${path} can not be opened as a store (${reason}); restore it from a backup`, {
      cause,
    });
  }
  const db = <V, K extends string | Uint8Array | [string, string] | [number, Expiring, string]>(
    name: string,
  ) => root.openDB<V, K>(name, {});
  const databases: Databases = {
    root,
    customers: db('customers'),
    services: db('services'),
    users: db('users'),
    logins: db('logins'),
    tokens: db('tokens'),
    tokenIds: db('token_ids'),
    uses: db('uses'),
    sessions: db('sessions'),
    otpSteps: db('otp_steps'),
    failures: db('login_failures'),
    sudos: db('sudos'),
    writes: db('writes_in_hour'),
    servicesOf: db('services_of_customer'),
    usersOf: db('users_of_customer'),
    tokensOf: db('tokens_of_user'),
    sessionsOf: db('sessions_of_user'),
    expiry: db('expiry'),
    revoked: db('revoked_legacy_keys'),
    signingKeys: db('signing_keys'),
    meta: db('meta'),
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

/** The second parts of an index's keys under one first part. */
export function listIndex(index: Database<unknown, [string, string]>, first: string): string[] {
  // Ids are ASCII, so U+FFFF sorts behind all of them.
  return [...index.getKeys({ start: [first, ''], end: [first, '\uffff'] })].map(([, second]) => second);
}
