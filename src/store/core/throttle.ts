/** Counts of login attempts, and the addresses from which accounts logged in. */
import { EXPIRY } from './indexes.js';
import { digestOf } from '../../domain/secret.js';
import type { EpochMs } from '../../util/time.js';
import {
  type AttemptCount,
  type AttemptLimit,
  blockedUntil,
  incremented,
  type LoginThrottleStore,
  MAX_KNOWN_ADDRESSES,
  released,
  type Settlement,
} from '../login-throttle-store.js';
import { ATTEMPTS, KNOWN, type KnownAddress, keyOf, valueOf } from './kinds.js';
import { type Transaction, type Transactor, valueAt } from './transaction.js';

/** Longer keys are stored by their digest: a login name may have any length. */
const MAX_ID = 200;

function idOf(key: string): string {
  return Buffer.byteLength(key) > MAX_ID ? digestOf(key) : key;
}

export function loginThrottleStore(transactor: Transactor): LoginThrottleStore {
  const { kv } = transactor;
  return {
    blockedUntil: async (limits, now) => {
      const ids = limits.map(({ key }) => idOf(key));
      const found = await kv.read(ids.map((id) => keyOf(ATTEMPTS, id)));
      return latest(
        limits,
        found.map((stored, i) => valueOf(ATTEMPTS, ids[i] as string, stored)),
        now,
      );
    },
    reserve: async (limits, now) =>
      transactor.transact(async (tx) => reserve(tx, limits, now), { guard: `attempts:${limits[0]?.key}` }),
    settle: async (settlement, now) => transactor.transact(async (tx) => settle(tx, settlement, now)),
    listKnownAddresses: async (account, now) => {
      const known = (await valueAt(kv, KNOWN, idOf(account)))?.addresses ?? [];
      return known.filter(({ until }) => until > now).map(({ address }) => address);
    },
  };
}

/** Returns when an attempt is allowed by all of its limits; 0 if it need not wait. */
function latest(
  limits: readonly AttemptLimit[],
  counts: readonly (AttemptCount | undefined)[],
  now: EpochMs,
): EpochMs {
  const until = Math.max(0, ...limits.map((limit, i) => blockedUntil(counts[i], limit, now)));
  return until > now ? until : 0;
}

/** Returns 0 if it counted the attempt; otherwise until when that has to wait. */
async function reserve(tx: Transaction, limits: readonly AttemptLimit[], now: EpochMs): Promise<EpochMs> {
  await tx.load(limits.map(({ key }) => keyOf(ATTEMPTS, idOf(key))));
  const counts = await Promise.all(limits.map(({ key }) => tx.get(ATTEMPTS, idOf(key))));
  const until = latest(limits, counts, now);
  if (until > 0) return until;
  for (const [i, limit] of limits.entries()) writeCount(tx, limit.key, incremented(counts[i], limit, now));
  return 0;
}

async function settle(
  tx: Transaction,
  { clear, release, remember }: Settlement,
  now: EpochMs,
): Promise<void> {
  await tx.load([...clear, ...release].map((key) => keyOf(ATTEMPTS, idOf(key))));
  for (const key of clear) if (await tx.has(ATTEMPTS, idOf(key))) writeCount(tx, key, undefined);
  for (const key of release) {
    const known = await tx.get(ATTEMPTS, idOf(key));
    if (known !== undefined) writeCount(tx, key, released(known));
  }
  if (remember !== undefined) await rememberAddress(tx, remember, now);
}

function writeCount(tx: Transaction, key: string, count: AttemptCount | undefined): void {
  const id = idOf(key);
  if (count === undefined) {
    tx.remove(ATTEMPTS, id);
    tx.unlink(EXPIRY, keyOf(ATTEMPTS, id));
    return;
  }
  tx.put(ATTEMPTS, id, count);
  tx.link(EXPIRY, keyOf(ATTEMPTS, id), count.forgetAt);
}

async function rememberAddress(
  tx: Transaction,
  { account, address, until }: NonNullable<Settlement['remember']>,
  now: EpochMs,
): Promise<void> {
  const id = idOf(account);
  const known = (await tx.get(KNOWN, id))?.addresses ?? [];
  const others = known.filter((each) => each.address !== address && each.until > now);
  const addresses: KnownAddress[] = [...others, { address, until }]
    .toSorted((a, b) => a.until - b.until)
    .slice(-MAX_KNOWN_ADDRESSES);
  tx.put(KNOWN, id, { addresses });
  tx.link(EXPIRY, keyOf(KNOWN, id), Math.max(...addresses.map((each) => each.until)));
}
