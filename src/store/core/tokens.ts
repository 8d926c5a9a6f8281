/** API tokens and legacy keys: look-ups, creation within limits, updates, revocation. */
import { LRUCache } from 'lru-cache';
import { idsAfter, outermost, type Token } from '../../domain/token.js';
import { isAsVerified, type User, type VerifiedOwner } from '../../domain/user.js';
import type { WebhookEventType } from '../../domain/webhook.js';
import { mapMaybe, type MaybePromise } from '../../util/async.js';
import { upTo, partsOf } from '../../util/collections.js';
import type { EpochMs } from '../../util/time.js';
import { nameOfChange } from '../revocations.js';
import {
  addToken,
  countedOf,
  type ExpiringToken,
  familyOf,
  makeRoom,
  noteRevoked,
  type OnFound,
  readToken,
  revokeToken,
  rotationStore,
  type TokenChange,
  type TokenCreation,
  type TokenLimits,
  type TokenRevocation,
  type TokenUpdate,
  type TokenWithOwner,
  type TokenWithUse,
} from './token-records.js';
import type { Events } from './events.js';
import {
  ALL_TOKENS,
  boundOf,
  DECLARED,
  GUARD,
  keyOf,
  LEGACY_KEYS,
  OVERLAPS,
  REVOKED,
  REVOKED_NAMES,
  SUCCESSORS,
  TOKEN,
  TOKEN_ID,
  tokensOf,
  USE,
  USER,
  usersOf,
  valueOf,
  WARNED,
} from './kinds.js';
import type { Kv, Stored } from './kv.js';
import { allOf, namesOf, pagesOf, type Transaction, type Transactor } from './transaction.js';

const AT_ONCE = 100;
/** How long the count of a customer's tokens is used, in milliseconds: other processes may add some. */
const COUNTED_MS = 60_000;

export type TokenStore = ReturnType<typeof tokenStore>;

export function tokenStore(transactor: Transactor, events: Events) {
  const { kv } = transactor;
  const counted = new LRUCache<string, { count: number; at: number }>(upTo(10_000));
  /** Whether a customer has no room for one more, by the latest count and what this process added since. */
  const isFull = async ({ id, most }: NonNullable<TokenLimits['ofCustomer']>): Promise<boolean> => {
    const now = performance.now();
    let known = counted.get(id);
    if (known === undefined || known.count >= most || now - known.at > COUNTED_MS) {
      known = { count: await countUpTo(kv, id, most), at: now };
      counted.set(id, known);
    }
    known.count += 1;
    return known.count > most;
  };
  return {
    find: (digest: string) => find(kv, digest),
    get: (id: string) => mapMaybe(get(kv, id), (known) => known?.found),
    getWithOwner: (id: string) => get(kv, id),
    /** Returns a token, unless it is gone, and those that came from it by rotation, expired ones included. */
    family: async (id: string): Promise<TokenWithUse[]> => {
      const ids = await familyOf((range) => kv.range(SUCCESSORS, range), id);
      const found = await read(kv, ids);
      if (found.length === 0) await kv.confirmMissing();
      return found;
    },
    listOfUser: async (userId: string) => allOf(pages(kv, tokensOf(userId))),
    /** Few at once, for those that read a whole store. */
    pagesOfUser: (userId: string) => pages(kv, tokensOf(userId), AT_ONCE),
    /** In the order of the ids; unknown ones are passed over. */
    listByIds: async (ids: readonly string[]) => read(kv, ids),
    listOfCustomer: async (customerId: string) => {
      const found: TokenWithUse[] = [];
      for await (const page of pagesOf(kv, usersOf(customerId)))
        for (const { name } of page) found.push(...(await allOf(pages(kv, tokensOf(name)))));
      return found;
    },
    /** Expired ones count. Concurrent creations may be missed. */
    customerHasAtLeast: async (customerId: string, count: number) =>
      (await countUpTo(kv, customerId, count)) >= count,
    /** Exact right after `removeExpired`. */
    countActive: (now: EpochMs) => kv.count(ALL_TOKENS, now + 1),
    /** Those that expire after `from` and no later than `until`, without rotated ones. */
    listExpiring: async (from: EpochMs, until: EpochMs): Promise<ExpiringToken[]> => {
      const found: ExpiringToken[] = [];
      for await (const page of pagesOf(kv, ALL_TOKENS, { from: from + 1, to: until })) {
        const names = page.map(({ name }) => name);
        const inOverlap = await kv.scores(OVERLAPS, names);
        for (const [i, { name, score }] of page.entries())
          if (inOverlap[i] === undefined) found.push({ id: name, expiresAt: score });
      }
      return found;
    },
    /** Claims expiry warnings, each once per expiry; whoever claims one reports it. */
    claimWarnings: async (ids: readonly string[]) =>
      transactor.transact(async (tx) => claimWarnings(tx, events, ids)),
    /** Adds a token, unless its owner changed since being verified or a limit is reached. Atomic. */
    create: async (token: Token, owner: VerifiedOwner, limits: TokenLimits, now: EpochMs) =>
      transactor.transact(async (tx) => create(tx, events, token, owner, limits, isFull, now), {
        guard: tokensOf(token.userId),
      }),
    ...rotationStore(transactor, events),
    /**
     * Replaces a record unless it changed since `basedOn`. Id, digest, owner, kind and expiry must stay.
     * @param others changed with it or not at all
     * @param event queued for each
     */
    update: async (
      token: Token,
      basedOn: EpochMs,
      others: readonly TokenChange[] = [],
      event?: WebhookEventType,
    ) =>
      transactor.transact(async (tx) => updateTokens(tx, events, [{ token, basedOn }, ...others], event), {
        isReserved: true,
      }),
    /** Revokes tokens by id, with all that came from them by rotation: all of them or none. */
    revoke: async (ids: readonly string[], onFound?: OnFound) =>
      transactor.transact(async (tx) => revokeTokens(tx, events, ids, onFound), { isReserved: true }),
    /** If none exists, values without the form of a token need no look-up. */
    hasLegacyKeys: () => mapMaybe(kv.urgent.range(LEGACY_KEYS, { limit: 1 }), (found) => found.length > 0),
    /** Returns the digests that can be imported: not of a token, nor of a revoked legacy key. */
    filterNewDigests: async (digests: readonly string[]) => {
      const keys = [TOKEN, REVOKED].flatMap((kind) => digests.map((digest) => keyOf(kind, digest)));
      const found = await kv.read(keys);
      return digests.filter((_, i) => found[i] === undefined && found[digests.length + i] === undefined);
    },
    listDeclared: async () => allOf(pages(kv, DECLARED)),
    /** Returns those of the names ({@link namesOfRevoked}) that were revoked. */
    filterRevoked: async (names: readonly string[]) => {
      const found = await kv.read(names.map((name) => keyOf(REVOKED, name)));
      return names.filter((_, i) => found[i] !== undefined);
    },
    listRevokedDigests: async () => namesOf(kv, REVOKED_NAMES),
    addRevokedDigests: async (digests: readonly string[]) =>
      transactor.transact(async (tx) => noteRevoked(tx, digests), { isReserved: true }),
  };
}

/** Returns no promise if the store answers without one. */
function find(kv: Kv, digest: string): MaybePromise<TokenWithOwner | undefined> {
  const found = kv.urgent.follow(keyOf(TOKEN, digest));
  return found instanceof Promise
    ? found.then(({ chain }) => withOwner(digest, chain))
    : withOwner(digest, found.chain);
}

function get(
  kv: Kv,
  id: string,
): MaybePromise<{ readonly found: TokenWithUse; readonly owner: User | undefined } | undefined> {
  return mapMaybe(kv.follow(keyOf(TOKEN_ID, id), keyOf(USE, id)), ({ chain: [, token, owner], beside }) => {
    const found = withUse(id, token, beside);
    return found && { found, owner: valueOf(USER, found.token.userId, owner) };
  });
}

async function* pages(kv: Kv, index: string, size?: number): AsyncGenerator<TokenWithUse[]> {
  for await (const page of pagesOf(kv, index, {}, size))
    yield read(
      kv,
      page.map(({ name }) => name),
    );
}

async function read(kv: Kv, ids: readonly string[]): Promise<TokenWithUse[]> {
  const pointers = await kv.read(ids.map((id) => keyOf(TOKEN_ID, id)));
  const known = ids.filter((_, i) => pointers[i] !== undefined);
  const digests = pointers.flatMap((stored, i) => valueOf(TOKEN_ID, ids[i] as string, stored)?.digest ?? []);
  const found = await kv.read([
    ...digests.map((digest) => keyOf(TOKEN, digest)),
    ...known.map((id) => keyOf(USE, id)),
  ]);
  return known.flatMap((id, i) => withUse(id, found[i], found[digests.length + i]) ?? []);
}

/** By the guards of the users; what they do not exceed is counted only if it is as much. */
async function countUpTo(kv: Kv, customerId: string, most: number): Promise<number> {
  let count = 0;
  for await (const page of pagesOf(kv, usersOf(customerId))) {
    const indexes = page.map(({ name }) => tokensOf(name));
    const guards = await kv.read(indexes.map((index) => keyOf(GUARD, index)));
    for (const [i, index] of indexes.entries())
      count += boundOf(valueOf(GUARD, index, guards[i])) ?? (await kv.count(index));
  }
  if (count < most) return count;
  count = 0;
  for await (const page of pagesOf(kv, usersOf(customerId)))
    for (const { name } of page) if ((count += await kv.count(tokensOf(name))) >= most) return count;
  return count;
}

async function create(
  tx: Transaction,
  events: Events,
  token: Token,
  owner: VerifiedOwner,
  { active, stored, ofCustomer }: TokenLimits,
  isFull: (customer: NonNullable<TokenLimits['ofCustomer']>) => Promise<boolean>,
  now: EpochMs,
): Promise<TokenCreation> {
  const index = tokensOf(owner.id);
  await tx.load([keyOf(USER, owner.id), keyOf(GUARD, index)]);
  if (ofCustomer !== undefined && (await isFull(ofCustomer))) return 'customer_full';
  if (!isAsVerified(await tx.get(USER, owner.id), owner)) return 'owner_changed';
  let most = boundOf(await tx.get(GUARD, index)) ?? (await tx.count(index));
  // Those in their overlap do not count.
  if (active !== null && most >= active && (await countedOf(tx, owner.id, now)).counted >= active)
    return 'limit_reached';
  if (stored !== null && most >= stored) {
    if (!(await makeRoom(tx, events, owner.id, stored, now))) return 'full';
    most = Math.min(await tx.count(index), stored - 1);
  }
  await addToken(tx, events, token, most);
  return 'created';
}

async function claimWarnings(tx: Transaction, events: Events, ids: readonly string[]): Promise<string[]> {
  const claimed: string[] = [];
  for (const id of ids) {
    const token = await readToken(tx, id);
    const at = token?.expiresAt ?? null;
    if (token === undefined || at === null || (await tx.get(WARNED, id))?.expiresAt === at) continue;
    tx.put(WARNED, id, { expiresAt: at });
    await events.ofToken(tx, 'token.expiring', token, Date.now());
    claimed.push(id);
  }
  return claimed;
}

function withOwner(digest: string, chain: readonly Stored[]): TokenWithOwner | undefined {
  const token = valueOf(TOKEN, digest, chain[0]);
  const owner = token && valueOf(USER, token.userId, chain[1]);
  return token && owner && { token, owner };
}

function withUse(id: string, stored: Stored | undefined, used: Stored | undefined): TokenWithUse | undefined {
  const token = valueOf(TOKEN, '', stored, id);
  return token && { token, use: valueOf(USE, id, used) ?? null };
}

async function updateTokens(
  tx: Transaction,
  events: Events,
  changes: readonly TokenChange[],
  event: WebhookEventType | undefined,
): Promise<TokenUpdate> {
  for (const [i, { token, basedOn }] of changes.entries()) {
    const known = await readToken(tx, token.id);
    if (known === undefined && i === 0) {
      await tx.confirmMissing();
      return 'not_found';
    }
    if (known?.updatedAt !== basedOn) return 'changed_meanwhile';
  }
  for (const { token } of changes) {
    tx.put(TOKEN, token.digest, token, keyOf(USER, token.userId));
    tx.tell(nameOfChange(token));
    if (event !== undefined) await events.ofToken(tx, event, token, Date.now());
  }
  return 'updated';
}

/** All or none, with all that came from them. */
async function revokeTokens(
  tx: Transaction,
  events: Events,
  ids: readonly string[],
  onFound: OnFound = () => undefined,
): Promise<TokenRevocation> {
  const names = new Map<string, readonly string[]>();
  for (const some of partsOf([...new Set(ids)], AT_ONCE)) {
    await tx.load(some.map((id) => keyOf(TOKEN_ID, id)));
    const found = await Promise.all(some.map(async (id) => familyIn(tx, id)));
    for (const [i, id] of some.entries()) names.set(id, found[i] ?? []);
  }
  const tokens = await readTokens(tx, [...names.values()].flat());
  const families = new Map(
    [...names].map(([id, family]) => [id, family.flatMap((each) => tokens.get(each) ?? [])]),
  );
  onFound(families);
  const missing = ids.filter((id) => families.get(id)?.length === 0);
  if (missing.length > 0) {
    await tx.confirmMissing();
    return { missing, revoked: [] };
  }
  const revoked = outermost(ids).flatMap((id) => families.get(id) ?? []);
  for (const { token } of revoked) await revokeToken(tx, events, token);
  return { missing, revoked: revoked.map(({ token }) => token.id) };
}

/** Nearly every token has no successors, which the commit can check without another round trip. */
async function familyIn(tx: Transaction, id: string): Promise<string[]> {
  const [after, before] = idsAfter(id);
  if (await tx.has(TOKEN_ID, id)) if (tx.assumesNone({ index: SUCCESSORS, after, before })) return [id];
  return familyOf((range) => tx.range(SUCCESSORS, range), id);
}

async function readTokens(tx: Transaction, ids: readonly string[]): Promise<Map<string, TokenWithUse>> {
  const uses = ids.map((id) => keyOf(USE, id));
  await tx.load([...ids.map((id) => keyOf(TOKEN_ID, id)), ...uses], uses);
  const pointers = await Promise.all(ids.map(async (id) => tx.get(TOKEN_ID, id)));
  await tx.load(pointers.flatMap((pointer) => (pointer === undefined ? [] : keyOf(TOKEN, pointer.digest))));
  const found = new Map<string, TokenWithUse>();
  for (const id of ids) {
    const token = await readToken(tx, id);
    if (token !== undefined) found.set(id, { token, use: (await tx.peek(USE, id)) ?? null });
  }
  const owners = [...found.values()].map(({ token }) => keyOf(USER, token.userId));
  await tx.load(owners);
  return found;
}
