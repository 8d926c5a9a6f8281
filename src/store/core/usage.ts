/** Last uses, one-time passwords, counts of writes and of requests; and the keys that sign assertions. */
import { type EpochMs, HOUR_MS } from '../../util/time.js';
import { type SessionUse, type TokenUse, type Rate, takeFrom } from '../../domain/token.js';
import {
  ATTEMPTS,
  encode,
  EXPIRY,
  keyOf,
  KNOWN,
  OTP_STEP,
  RATE,
  SESSION,
  SESSION_USE,
  SIGNING_KEYS,
  TOKEN_ID,
  USE,
  type ValueOf,
  valueOf,
  WRITES,
} from './kinds.js';
import { mapMaybe } from '../../util/async.js';
import type { SigningKeys } from '../../domain/signing-key.js';
import type { Touch } from './kv.js';
import { type Transaction, Transactor, valueAt } from './transaction.js';
import { digestOf } from '../../domain/secret.js';

/** How long a count of writes is kept after its hour began, in milliseconds. */
export const WRITES_KEPT_MS = 3 * HOUR_MS;

/** Uses of tokens and sessions since the last write, by token id and by session digest. */
export interface Uses {
  readonly tokens: ReadonlyMap<string, TokenUse>;
  readonly sessions: ReadonlyMap<string, SessionUse>;
}

export interface RateLease {
  readonly granted: number;
  /** Milliseconds until a request is available; 0 if some were granted. */
  readonly retryAfter: number;
}

export type UsageStore = ReturnType<typeof usageStore>;

export function usageStore(transactor: Transactor) {
  const { kv } = transactor;
  const urgent = new Transactor(kv.urgent);
  return {
    /** Credentials that no longer exist are skipped; an older use never replaces a newer one. */
    recordUses: async ({ tokens, sessions }: Uses): Promise<void> => {
      const touches: Touch[] = [];
      for (const [id, use] of tokens)
        touches.push({ key: keyOf(USE, id), at: use.at, value: encode(use), of: keyOf(TOKEN_ID, id) });
      for (const [digest, use] of sessions)
        touches.push({
          key: keyOf(SESSION_USE, digest),
          at: use.at,
          value: encode(use),
          of: keyOf(SESSION, digest),
        });
      await kv.touch(touches);
    },
    /** Returns whether `step` is later than every step consumed before for this user. */
    takeOtpStep: async (userId: string, step: number) =>
      transactor.transact(
        async (tx) => {
          if (((await tx.get(OTP_STEP, userId))?.step ?? -1) >= step) return false;
          tx.put(OTP_STEP, userId, { step });
          return true;
        },
        { guard: `otp:${userId}` },
      ),
    /** Returns the last step consumed for a user; -1 if none was. */
    getOtpStep: (userId: string) => mapMaybe(valueAt(kv, OTP_STEP, userId), (used) => used?.step ?? -1),
    /** Returns the count of the hour. A clock that still shows the previous hour counts into the current. */
    countWrite: async (userId: string, hour: EpochMs) =>
      transactor.transact(
        async (tx) => {
          const known = await tx.get(WRITES, userId);
          const isCurrent = known !== undefined && (known.hour === hour || known.hour === hour + HOUR_MS);
          const next = isCurrent ? { ...known, count: known.count + 1 } : { hour, count: 1 };
          tx.put(WRITES, userId, next);
          tx.link(EXPIRY, keyOf(WRITES, userId), next.hour + WRITES_KEPT_MS);
          return next.count;
        },
        { guard: `writes:${userId}` },
      ),
    /** Takes up to `want` requests from the bucket of a token, by the store's clock. */
    leaseRate: async (tokenId: string, rate: Rate, want: number) =>
      urgent.transact(
        async (tx): Promise<RateLease> => {
          const before = (await tx.get(RATE, tokenId))?.fullAt ?? 0;
          const { granted, state, retryAfter } = takeFrom(before, rate, want, await kv.clock());
          // A state beyond an empty bucket (see takeFrom) is replaced: it would never refill.
          if (granted > 0 || state < before) {
            tx.put(RATE, tokenId, { fullAt: state });
            // A full bucket is equivalent to none.
            tx.link(EXPIRY, keyOf(RATE, tokenId), Math.ceil(state));
          }
          return { granted, retryAfter };
        },
        { guard: `rate:${tokenId}`, isReserved: true },
      ),
  };
}

const ALL = 'all';

export type SigningKeyStore = ReturnType<typeof signingKeyStore>;

export function signingKeyStore(transactor: Transactor) {
  return {
    get: () => valueAt(transactor.kv, SIGNING_KEYS, ALL),
    /** Writes if the stored revision is the previous one (none: 0). Returns whether it did. */
    replace: async (next: SigningKeys) =>
      transactor.transact(async (tx) => {
        if (((await tx.get(SIGNING_KEYS, ALL))?.revision ?? 0) !== next.revision - 1) return false;
        tx.put(SIGNING_KEYS, ALL, next);
        return true;
      }),
    /** Removes the signing keys, readable or not. Returns whether any existed. */
    remove: async () =>
      transactor.transact(
        async (tx) => {
          if (!(await tx.has(SIGNING_KEYS, ALL))) return false;
          tx.remove(SIGNING_KEYS, ALL);
          return true;
        },
        { isReserved: true },
      ),
  };
}

/** The first wait after the free attempts, milliseconds. */
const FIRST_WAIT_MS = 1_000;
const MAX_DOUBLINGS = 30;

/** How a count of login attempts delays the next one. Times are in milliseconds. */
export interface AttemptLimit {
  readonly key: string;
  /** Attempts without a delay. After them, the wait doubles from one second up to `longestWait`. */
  readonly free: number;
  readonly longestWait: number;
  /** At this count, the next attempt waits until the count expires. */
  readonly stopAt: number;
  readonly forgetAfter: number;
  /** Whether `forgetAfter` starts at the latest attempt or at the first. */
  readonly forgetFrom: 'latest' | 'first';
}

export interface Settlement {
  readonly clear: readonly string[];
  readonly release: readonly string[];
  readonly remember?: { readonly account: string; readonly address: string; readonly until: EpochMs };
}

/** Maximum number of known addresses per account; the one that expires first is evicted. */
const MAX_KNOWN_ADDRESSES = 5;

/** Milliseconds by which clocks of a fleet may differ, even if counts are kept for less time. */
const MIN_AHEAD_MS = 300_000;

type AttemptCount = ValueOf<typeof ATTEMPTS>;

/** Returns when the next attempt is allowed; 0 or a past time if it need not wait. */
function blockedUntil(known: AttemptCount | undefined, limit: AttemptLimit, now: EpochMs): EpochMs {
  if (known === undefined || known.forgetAt <= now) return 0;
  // A clock that ran ahead counted it: one attempt is allowed, and waits start from there.
  if (known.lastAt - now > Math.max(limit.forgetAfter, MIN_AHEAD_MS)) return 0;
  // A clock that was set back must not extend the wait.
  if (known.count >= limit.stopAt) return Math.min(known.forgetAt, now + limit.forgetAfter);
  if (known.count < limit.free) return 0;
  const doublings = Math.min(known.count - limit.free, MAX_DOUBLINGS);
  return Math.min(known.lastAt, now) + Math.min(limit.longestWait, FIRST_WAIT_MS * 2 ** doublings);
}

function incremented(known: AttemptCount | undefined, limit: AttemptLimit, now: EpochMs): AttemptCount {
  if (known === undefined || known.forgetAt <= now)
    return { count: 1, lastAt: now, before: 0, forgetAt: now + limit.forgetAfter };
  const latest = now + limit.forgetAfter;
  const forgetAt = limit.forgetFrom === 'latest' ? latest : Math.min(known.forgetAt, latest);
  return { count: known.count + 1, lastAt: now, before: known.lastAt, forgetAt };
}

function released(known: AttemptCount): AttemptCount | undefined {
  if (known.count <= 1) return undefined;
  return { ...known, count: known.count - 1, lastAt: known.before };
}

/** Longer keys are stored by their digest: a login name may have any length. */
const MAX_ID = 200;

function idOf(key: string): string {
  return Buffer.byteLength(key) > MAX_ID ? digestOf(key) : key;
}

export type LoginThrottleStore = ReturnType<typeof loginThrottleStore>;

export function loginThrottleStore(transactor: Transactor) {
  const { kv } = transactor;
  return {
    blockedUntil: async (limits: readonly AttemptLimit[], now: EpochMs) => {
      const ids = limits.map(({ key }) => idOf(key));
      const found = await kv.read(ids.map((id) => keyOf(ATTEMPTS, id)));
      return latest(
        limits,
        found.map((stored, i) => valueOf(ATTEMPTS, ids[i] as string, stored)),
        now,
      );
    },
    /**
     * Counts an attempt under each limit, before its password is verified, and returns 0.
     * If it has to wait, counts nothing and returns until when.
     */
    reserve: async (limits: readonly AttemptLimit[], now: EpochMs) =>
      transactor.transact(async (tx) => reserve(tx, limits, now), { guard: `attempts:${limits[0]?.key}` }),
    /** Settles a reserved attempt that was not a guess. */
    settle: async (settlement: Settlement, now: EpochMs) =>
      transactor.transact(async (tx) => settle(tx, settlement, now)),
    listKnownAddresses: async (account: string, now: EpochMs) => {
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
  const addresses = [...others, { address, until }]
    .toSorted((a, b) => a.until - b.until)
    .slice(-MAX_KNOWN_ADDRESSES);
  tx.put(KNOWN, id, { addresses });
  tx.link(EXPIRY, keyOf(KNOWN, id), Math.max(...addresses.map((each) => each.until)));
}
