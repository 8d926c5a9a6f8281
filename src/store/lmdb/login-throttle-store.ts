import {
  type AttemptCount,
  type AttemptLimit,
  incremented,
  blockedUntil,
  type LoginThrottleStore,
  MAX_KNOWN_ADDRESSES,
  type Settlement,
  released,
} from '../login-throttle-store.js';
import type { Transactions } from './transactions.js';
import type { EpochMs } from '../../util/time.js';
import { digestOf } from '../../domain/secret.js';
import { attemptsOf, decoder, encode, isText, isTime, listOf, objectOf } from '../records.js';
import type { Databases, KnownAddress } from './databases.js';

export function lmdbLoginThrottleStore(transactions: Transactions): LoginThrottleStore {
  return {
    blockedUntil: (limits, now) => transactions.read((dbs) => attemptBlockedUntil(dbs, limits, now)),
    reserve: async (limits, now) => transactions.write((dbs) => reserveAttempt(dbs, limits, now)),
    settle: async (settlement, now) => transactions.write((dbs) => settleAttempt(dbs, settlement, now)),
    listKnownAddresses: (account, now) =>
      transactions.read((dbs) => readKnownAddresses(dbs, account, now).map(({ address }) => address)),
  };
}

/** Maximum length of a key. LMDB's keys are short, so a longer one is replaced by its digest. */
const MAX_KEY = 100;

/** Returns when an attempt is allowed; 0 if it need not wait. */
function attemptBlockedUntil(dbs: Databases, limits: readonly AttemptLimit[], now: EpochMs): EpochMs {
  const until = Math.max(0, ...limits.map((limit) => blockedUntil(readCount(dbs, limit.key), limit, now)));
  return until > now ? until : 0;
}

/**
 * Counts an attempt and returns 0. If it has to wait, it counts nothing and returns until when. Run
 * it in a write transaction.
 */
function reserveAttempt(dbs: Databases, limits: readonly AttemptLimit[], now: EpochMs): EpochMs {
  const until = attemptBlockedUntil(dbs, limits, now);
  if (until > 0) return until;
  for (const limit of limits) writeCount(dbs, limit.key, incremented(readCount(dbs, limit.key), limit, now));
  return 0;
}

/** Run it in a write transaction. */
function settleAttempt(dbs: Databases, settlement: Settlement, now: EpochMs): void {
  for (const key of settlement.clear) removeCount(dbs, shortKey(key));
  for (const key of settlement.release) {
    const known = readCount(dbs, key);
    if (known !== undefined) writeCount(dbs, key, released(known));
  }
  if (settlement.remember !== undefined) rememberAddress(dbs, settlement.remember, now);
}

/** Returns the addresses from which an account logged in, in order of expiry. */
function readKnownAddresses(dbs: Databases, account: string, now: EpochMs): KnownAddress[] {
  return storedAddresses(dbs, shortKey(account)).filter(({ until }) => until > now);
}

/** Run it in a write transaction. */
function removeCount(dbs: Databases, key: string): void {
  const stored = dbs.attempts.get(key);
  if (stored === undefined) return;
  dbs.attempts.removeSync(key);
  dbs.expiry.removeSync([stored.forgetAt, 'failure', key]);
}

/** Run it in a write transaction. */
function removeKnownAddresses(dbs: Databases, key: string): void {
  const before = storedAddresses(dbs, key);
  dbs.knownAddresses.removeSync(key);
  if (before.length > 0) dbs.expiry.removeSync([lastUntil(before), 'known', key]);
}

function rememberAddress(
  dbs: Databases,
  { account, address, until }: NonNullable<Settlement['remember']>,
  now: EpochMs,
): void {
  const key = shortKey(account);
  const others = readKnownAddresses(dbs, account, now).filter((each) => each.address !== address);
  const addresses = [...others, { address, until }]
    .toSorted((a, b) => a.until - b.until)
    .slice(-MAX_KNOWN_ADDRESSES);
  removeKnownAddresses(dbs, key);
  dbs.knownAddresses.putSync(key, encode({ addresses }));
  dbs.expiry.putSync([lastUntil(addresses), 'known', key], true);
}

const knownAddressesOf = decoder<{ readonly addresses: readonly KnownAddress[] }>('known address', {
  addresses: listOf(objectOf<KnownAddress>({ address: isText, until: isTime })),
});

function storedAddresses(dbs: Databases, key: string): readonly KnownAddress[] {
  const stored = dbs.knownAddresses.get(key);
  return stored === undefined ? [] : knownAddressesOf(stored).addresses;
}

function lastUntil(addresses: readonly KnownAddress[]): EpochMs {
  return Math.max(...addresses.map(({ until }) => until));
}

function readCount(dbs: Databases, key: string): AttemptCount | undefined {
  const stored = dbs.attempts.get(shortKey(key));
  return stored === undefined ? undefined : attemptsOf(stored);
}

function writeCount(dbs: Databases, key: string, next: AttemptCount | undefined): void {
  removeCount(dbs, shortKey(key));
  if (next === undefined) return;
  dbs.attempts.putSync(shortKey(key), encode(next));
  dbs.expiry.putSync([next.forgetAt, 'failure', shortKey(key)], true);
}

function shortKey(key: string): string {
  return key.length > MAX_KEY || Buffer.byteLength(key) > MAX_KEY ? digestOf(key) : key;
}
