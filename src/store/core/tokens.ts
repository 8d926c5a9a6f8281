/** API tokens and legacy keys: look-ups, creation within limits, updates, revocation. */
import { idsAfter, outermost, type Token } from '../../domain/token.js';
import { isAsVerified, type VerifiedOwner } from '../../domain/user.js';
import { mapMaybe, type MaybePromise } from '../../util/async.js';
import type { EpochMs } from '../../util/time.js';
import { nameOfChange } from '../revocations.js';
import {
  namesOfRevoked,
  type TokenChange,
  type TokenCreation,
  type TokenLimits,
  type TokenRevocation,
  type TokenStore,
  type TokenUpdate,
  type TokenWithOwner,
  type TokenWithUse,
} from '../token-store.js';
import { partsOf } from '../parts.js';
import type { Events } from './events.js';
import {
  ALL_TOKENS,
  DECLARED,
  EXPIRY,
  expiring,
  LEGACY_KEYS,
  NEVER,
  OVERLAPS,
  REVOKED_NAMES,
  SUCCESSORS,
  tokensOf,
  usersOf,
} from './indexes.js';
import { GUARD, keyOf, REVOKED, TOKEN, TOKEN_ID, USE, USER, valueOf, WARNED } from './kinds.js';
import type { Kv, Member, Range, Stored } from './kv.js';
import { rotationStore } from './rotations.js';
import { pagesOf, type Transaction, type Transactor } from './transaction.js';

/** Indexes that are read at once. */
const AT_ONCE = 100;

export class Tokens {
  readonly #transactor: Transactor;
  readonly #kv: Kv;
  readonly #events: Events;

  constructor(transactor: Transactor, events: Events) {
    this.#transactor = transactor;
    this.#kv = transactor.kv;
    this.#events = events;
  }

  store(): TokenStore {
    return {
      find: (digest) => this.#find(digest),
      get: (id) => this.#get(id),
      family: (id, limit) => this.#family(id, limit),
      listOfUser: (userId) => this.#list(tokensOf(userId)),
      listOfCustomer: async (customerId) => {
        const found: TokenWithUse[] = [];
        for await (const page of pagesOf(this.#kv, usersOf(customerId)))
          for (const { name } of page) found.push(...(await this.#list(tokensOf(name))));
        return found;
      },
      customerHasAtLeast: async (customerId, count) => this.#hasAtLeast(customerId, count),
      countActive: (now) => this.#kv.count(ALL_TOKENS, now + 1),
      listExpiring: async (from, until) => this.#expiring(from, until),
      claimWarnings: async (ids) => this.#transactor.transact(async (tx) => this.#claimWarnings(tx, ids)),
      create: async (token, owner, limits, now) =>
        this.#transactor.transact(async (tx) => createToken(tx, this.#events, token, owner, limits, now), {
          guard: tokensOf(token.userId),
        }),
      ...rotationStore(this.#transactor, this.#events),
      update: async (token, basedOn, { others = [], event } = {}) =>
        this.#transactor.transact(
          async (tx) => {
            const outcome = await updateTokens(tx, { token, basedOn }, others);
            if (outcome === 'updated' && event !== undefined)
              await this.#events.ofToken(tx, event, token, Date.now());
            return outcome;
          },
          { isReserved: true },
        ),
      revoke: async (ids) =>
        this.#transactor.transact(async (tx) => revokeTokens(tx, this.#events, ids), { isReserved: true }),
      hasLegacyKeys: () =>
        mapMaybe(this.#kv.urgent.range(LEGACY_KEYS, { limit: 1 }), (found) => found.length > 0),
      filterNewDigests: async (digests) => {
        const tokens = await this.#kv.read(digests.map((digest) => keyOf(TOKEN, digest)));
        const revoked = await this.#kv.read(digests.map((digest) => keyOf(REVOKED, digest)));
        return digests.filter((_, i) => tokens[i] === undefined && revoked[i] === undefined);
      },
      listDeclared: () => this.#list(DECLARED),
      filterRevoked: async (names) => {
        const found = await this.#kv.read(names.map((name) => keyOf(REVOKED, name)));
        return names.filter((_, i) => found[i] !== undefined);
      },
      listRevokedDigests: async () => {
        const names: string[] = [];
        for await (const page of pagesOf(this.#kv, REVOKED_NAMES))
          names.push(...page.map(({ name }) => name));
        return names;
      },
      addRevokedDigests: async (digests) =>
        this.#transactor.transact(async (tx) => noteRevoked(tx, digests), { isReserved: true }),
    };
  }

  #find(digest: string): MaybePromise<TokenWithOwner | undefined> {
    return mapMaybe(this.#kv.urgent.follow(keyOf(TOKEN, digest)), ({ chain: [token, owner] }) =>
      withOwner(digest, token, owner),
    );
  }

  #get(id: string): MaybePromise<TokenWithUse | undefined> {
    return mapMaybe(this.#kv.follow(keyOf(TOKEN_ID, id), keyOf(USE, id)), ({ chain: [, token], beside }) =>
      withUse(id, token, beside),
    );
  }

  async #family(id: string, limit = Infinity): Promise<TokenWithUse[]> {
    const ids = await familyOf((range) => this.#kv.range(SUCCESSORS, range), id);
    const found = await this.#read(ids);
    if (found.length === 0) await this.#kv.confirmMissing();
    return found.slice(0, limit);
  }

  async #list(index: string): Promise<TokenWithUse[]> {
    const found: TokenWithUse[] = [];
    for await (const page of pagesOf(this.#kv, index))
      found.push(...(await this.#read(page.map(({ name }) => name))));
    return found;
  }

  async #read(ids: readonly string[]): Promise<TokenWithUse[]> {
    const pointers = await this.#kv.read(ids.map((id) => keyOf(TOKEN_ID, id)));
    const known = ids.filter((_, i) => pointers[i] !== undefined);
    const digests = pointers.flatMap(
      (stored, i) => valueOf(TOKEN_ID, ids[i] as string, stored)?.digest ?? [],
    );
    const tokens = await this.#kv.read(digests.map((digest) => keyOf(TOKEN, digest)));
    const uses = await this.#kv.read(known.map((id) => keyOf(USE, id)));
    return known.flatMap((id, i) => withUse(id, tokens[i], uses[i]) ?? []);
  }

  async #hasAtLeast(customerId: string, count: number): Promise<boolean> {
    if ((await this.#kv.count(ALL_TOKENS)) < count) return false;
    let found = 0;
    for await (const page of pagesOf(this.#kv, usersOf(customerId)))
      for (const { name } of page) if ((found += await this.#kv.count(tokensOf(name))) >= count) return true;
    return false;
  }

  async #expiring(from: EpochMs, until: EpochMs) {
    const found: { id: string; expiresAt: EpochMs }[] = [];
    for await (const page of pagesOf(this.#kv, ALL_TOKENS, { from: from + 1, to: until })) {
      const inOverlap = await this.#kv.scores(
        OVERLAPS,
        page.map(({ name }) => name),
      );
      for (const [i, { name, score }] of page.entries())
        if (inOverlap[i] === undefined) found.push({ id: name, expiresAt: score });
    }
    return found;
  }

  async #claimWarnings(tx: Transaction, ids: readonly string[]): Promise<string[]> {
    const claimed: string[] = [];
    for (const id of ids) {
      const token = await readToken(tx, id);
      const at = token?.expiresAt ?? null;
      if (token === undefined || at === null || (await tx.get(WARNED, id))?.expiresAt === at) continue;
      tx.put(WARNED, id, { expiresAt: at });
      await this.#events.ofToken(tx, 'token.expiring', token, Date.now());
      claimed.push(id);
    }
    return claimed;
  }
}

function withOwner(
  digest: string,
  stored: Stored | undefined,
  owner: Stored | undefined,
): TokenWithOwner | undefined {
  const token = valueOf(TOKEN, digest, stored);
  const user = token && valueOf(USER, token.userId, owner);
  return user && { token: token as Token, owner: user };
}

function withUse(id: string, stored: Stored | undefined, used: Stored | undefined): TokenWithUse | undefined {
  const token = valueOf(TOKEN, '', stored, id);
  return token && { token, use: valueOf(USE, id, used) ?? null };
}

/** Returns a token by its id. */
export async function readToken(tx: Transaction, id: string): Promise<Token | undefined> {
  const pointer = await tx.get(TOKEN_ID, id);
  return pointer && tx.get(TOKEN, pointer.digest, id);
}

/** Returns the id of a token and of those that came from it by rotation, in this order. */
async function familyOf(
  range: (range: Range) => MaybePromise<readonly Member[]>,
  id: string,
): Promise<string[]> {
  const [start, end] = idsAfter(id);
  const found = await range({ after: { name: start, score: 0 }, before: { name: end, score: 0 } });
  return [id, ...found.map(({ name }) => name)];
}

/** Adds a token within the limits of its owner. */
async function createToken(
  tx: Transaction,
  events: Events,
  token: Token,
  owner: VerifiedOwner,
  { active, stored }: TokenLimits,
  now: EpochMs,
): Promise<TokenCreation> {
  await tx.load([keyOf(USER, owner.id), keyOf(GUARD, tokensOf(owner.id))]);
  if (!isAsVerified(await tx.get(USER, owner.id), owner)) return 'owner_changed';
  if (active !== null && (await countedOf(tx, token.userId, now)).counted >= active) return 'limit_reached';
  if (stored !== null && !(await makeRoom(tx, events, token.userId, stored, now))) return 'full';
  await addToken(tx, events, token);
  return 'created';
}

/** Counts the active tokens of a user: those that count towards a limit, and those in their overlap. */
export async function countedOf(
  tx: Transaction,
  userId: string,
  now: EpochMs,
): Promise<{ counted: number; inOverlap: number }> {
  const active = await activeOf(tx, userId, now);
  const inOverlap = (await tx.scores(OVERLAPS, active)).filter((score) => score !== undefined).length;
  return { counted: active.length - inOverlap, inOverlap };
}

/** Returns the ids of a user's tokens that have not expired. Nobody adds one until the commit. */
export async function activeOf(tx: Transaction, userId: string, now: EpochMs): Promise<string[]> {
  await tx.has(GUARD, tokensOf(userId));
  return (await tx.range(tokensOf(userId), { from: now + 1 })).map(({ name }) => name);
}

/** Removes a user's expired tokens, earliest expiry first, until one more fits. Returns whether it does. */
export async function makeRoom(
  tx: Transaction,
  events: Events,
  userId: string,
  stored: number,
  now: EpochMs,
): Promise<boolean> {
  await tx.has(GUARD, tokensOf(userId));
  const excess = (await tx.count(tokensOf(userId))) - stored + 1;
  if (excess <= 0) return true;
  const expired = await tx.range(tokensOf(userId), { to: await tx.earlier(now), limit: excess });
  if (expired.length < excess) return false;
  for (const { name } of expired) {
    const token = await readToken(tx, name);
    if (token !== undefined) await removeToken(tx, events, token);
    else tx.unlink(tokensOf(userId), name);
  }
  return true;
}

/** Adds a token with its indexes. */
export async function addToken(tx: Transaction, events: Events, token: Token): Promise<void> {
  putToken(tx, token);
  tx.put(GUARD, tokensOf(token.userId), {});
  await events.created(tx, token);
}

function putToken(tx: Transaction, token: Token): void {
  const { id, digest, userId, expiresAt } = token;
  tx.put(TOKEN, digest, token, keyOf(USER, userId));
  tx.put(TOKEN_ID, id, { digest }, keyOf(TOKEN, digest));
  tx.link(ALL_TOKENS, id, expiresAt ?? NEVER);
  tx.link(tokensOf(userId), id, expiresAt ?? NEVER);
  if (expiresAt === null) tx.unlink(EXPIRY, expiring(TOKEN_ID, id));
  else tx.link(EXPIRY, expiring(TOKEN_ID, id), expiresAt);
  if (token.kind === 'legacy_key') tx.link(LEGACY_KEYS, id);
  if (token.predecessorId !== undefined) tx.link(SUCCESSORS, id);
  if (token.declared) tx.link(DECLARED, id);
  if (token.rotated && expiresAt !== null) tx.link(OVERLAPS, id, expiresAt);
  else tx.unlink(OVERLAPS, id);
}

/** Replaces a token's record; its last use stays. */
export async function replaceToken(
  tx: Transaction,
  events: Events,
  before: Token,
  token: Token,
): Promise<void> {
  if (before.digest !== token.digest) tx.remove(TOKEN, before.digest);
  putToken(tx, token);
  await events.replaced(tx, before, token);
}

/** Removes a token with its indexes and its last use. The same one may be added again. */
export async function removeToken(tx: Transaction, events: Events, token: Token): Promise<void> {
  await events.removed(tx, token);
  dropToken(tx, token);
}

/** Removes a token with its indexes and its last use, without an event. */
export function dropToken(
  tx: Transaction,
  { id, digest, userId }: Pick<Token, 'id' | 'digest' | 'userId'>,
): void {
  tx.remove(TOKEN, digest);
  for (const kind of [TOKEN_ID, USE, WARNED]) tx.remove(kind, id);
  for (const index of [ALL_TOKENS, tokensOf(userId), LEGACY_KEYS, SUCCESSORS, DECLARED, OVERLAPS])
    tx.unlink(index, id);
  tx.unlink(EXPIRY, expiring(TOKEN_ID, id));
}

async function updateTokens(
  tx: Transaction,
  first: TokenChange,
  others: readonly TokenChange[],
): Promise<TokenUpdate> {
  for (const change of [first, ...others]) {
    const known = await readToken(tx, change.token.id);
    if (known === undefined && change === first) {
      await tx.confirmMissing();
      return 'not_found';
    }
    if (known?.updatedAt !== change.basedOn) return 'changed_meanwhile';
  }
  for (const { token } of [first, ...others]) {
    tx.put(TOKEN, token.digest, token, keyOf(USER, token.userId));
    tx.tell(nameOfChange(token));
  }
  return 'updated';
}

/** Revokes tokens and all that came from them, all or none. */
async function revokeTokens(
  tx: Transaction,
  events: Events,
  ids: readonly string[],
): Promise<TokenRevocation> {
  const names = new Map<string, readonly string[]>();
  for (const some of partsOf([...new Set(ids)], AT_ONCE)) {
    const found = await Promise.all(
      some.map(async (id) => familyOf((range) => tx.range(SUCCESSORS, range), id)),
    );
    for (const [i, id] of some.entries()) names.set(id, found[i] ?? []);
  }
  const tokens = await readTokens(tx, [...names.values()].flat());
  const families = new Map(
    [...names].map(([id, family]) => [id, family.flatMap((each) => tokens.get(each) ?? [])]),
  );
  const missing = ids.filter((id) => families.get(id)?.length === 0);
  if (missing.length > 0) {
    await tx.confirmMissing();
    return { missing, revoked: [] };
  }
  const revoked = outermost(ids).flatMap((id) => families.get(id) ?? []);
  for (const token of revoked) await revokeToken(tx, events, token);
  return { missing, revoked: revoked.map(({ id }) => id) };
}

/** Reads tokens at once, with their last uses. */
async function readTokens(tx: Transaction, ids: readonly string[]): Promise<Map<string, Token>> {
  await tx.load(ids.map((id) => keyOf(TOKEN_ID, id)));
  const pointers = await Promise.all(ids.map(async (id) => tx.get(TOKEN_ID, id)));
  await tx.load(pointers.flatMap((pointer) => (pointer === undefined ? [] : keyOf(TOKEN, pointer.digest))));
  await tx.loadLoose(ids.map((id) => keyOf(USE, id)));
  const found = new Map<string, Token>();
  for (const id of ids) {
    const token = await readToken(tx, id);
    if (token !== undefined) found.set(id, token);
  }
  await tx.load([...found.values()].map(({ userId }) => keyOf(USER, userId)));
  return found;
}

/** Removes a token for good. */
export async function revokeToken(tx: Transaction, events: Events, token: Token): Promise<void> {
  await removeToken(tx, events, token);
  tx.tell(`token:${token.id}`);
  forbid(tx, namesOfRevoked(token));
}

/** Forbids that anything with these names is added again. */
export function forbid(tx: Transaction, names: readonly string[]): void {
  noteRevoked(tx, names);
  tx.tell(...names.map((name) => `legacy:${name}`));
}

export function noteRevoked(tx: Transaction, names: readonly string[]): void {
  for (const name of names) {
    tx.put(REVOKED, name, {});
    tx.link(REVOKED_NAMES, name);
  }
}

/** Whether a digest belongs neither to a token nor to a revoked one. */
export async function isNewDigest(tx: Transaction, digest: string): Promise<boolean> {
  return !(await tx.has(TOKEN, digest)) && !(await tx.has(REVOKED, digest));
}
