/** Tokens as records with their indexes, in a transaction. */
import { isDeepStrictEqual } from 'node:util';
import type { EpochMs } from '../../util/time.js';
import { idsAfter, type Token, type TokenUse, type Rotation } from '../../domain/token.js';
import { isAsVerified, type User, type VerifiedOwner } from '../../domain/user.js';
import type { MaybePromise } from '../../util/async.js';
import type { Events } from './events.js';
import {
  ALL_TOKENS,
  boundOf,
  DECLARED,
  EXPIRY,
  GUARD,
  keyOf,
  LEGACY_KEYS,
  NEVER,
  OVERLAPS,
  REVOKED,
  REVOKED_NAMES,
  SUCCESSORS,
  TOKEN,
  TOKEN_ID,
  tokensOf,
  USE,
  USER,
  WARNED,
} from './kinds.js';
import type { Member, Range } from './kv.js';
import type { Transaction, Transactor } from './transaction.js';

export interface TokenWithOwner {
  readonly token: Token;
  readonly owner: User;
}

/** `use` is null if it was never used. */
export interface TokenWithUse {
  readonly token: Token;
  readonly use: TokenUse | null;
}

/** null: no limit. */
export interface TokenLimits {
  /** Limit on tokens that have not expired. */
  readonly active: number | null;
  /** Limit on all stored tokens. To add one, the tokens that expired first are removed. */
  readonly stored: number | null;
  /** Limit on all stored tokens of the users of a customer, as `customerHasAtLeast`. */
  readonly ofCustomer?: { readonly id: string; readonly most: number };
}

export type TokenCreation = 'created' | 'limit_reached' | 'full' | 'customer_full' | 'owner_changed';

/** Names that keep a revoked token from being added again, which only a directory file could do. */
export function namesOfRevoked({ id, digest, kind, declared }: Token): readonly string[] {
  // Digests contain no colon.
  if (declared) return [`id:${id}`, digest];
  return kind === 'legacy_key' ? [digest] : [];
}

/** The outcome of a rotation. `changed`: the old token was changed or removed since it was read. */
export type TokenRotation = 'rotated' | 'changed' | Exclude<TokenCreation, 'created' | 'customer_full'>;

export type TokenUpdate = 'updated' | 'not_found' | 'changed_meanwhile';

export interface TokenChange {
  readonly token: Token;
  readonly basedOn: EpochMs;
}

/**
 * Gets what is about to be revoked, by given id, before it is; again if it has changed meanwhile.
 */
export type OnFound = (families: ReadonlyMap<string, readonly TokenWithUse[]>) => void;

/** What a revocation reached. If a token is missing, none is revoked. */
export interface TokenRevocation {
  /** Those given ids of which there is neither the token nor one that came from it. */
  readonly missing: readonly string[];
  readonly revoked: readonly string[];
}

export interface ExpiringToken {
  readonly id: string;
  readonly expiresAt: EpochMs;
}

export async function readToken(tx: Transaction, id: string): Promise<Token | undefined> {
  const pointer = await tx.get(TOKEN_ID, id);
  return pointer && tx.get(TOKEN, pointer.digest, id);
}

/** Returns the id of a token and of those that came from it by rotation, in this order. */
export async function familyOf(
  range: (range: Range) => MaybePromise<readonly Member[]>,
  id: string,
): Promise<string[]> {
  const [start, end] = idsAfter(id);
  const found = await range({ after: { name: start, score: 0 }, before: { name: end, score: 0 } });
  return [id, ...found.map(({ name }) => name)];
}

export async function countedOf(
  tx: Transaction,
  userId: string,
  now: EpochMs,
): Promise<{ counted: number; inOverlap: number }> {
  const active = await activeOf(tx, userId, now);
  const inOverlap = (await tx.scores(OVERLAPS, active)).filter((score) => score !== undefined).length;
  return { counted: active.length - inOverlap, inOverlap };
}

/** Nobody adds one until the commit. */
export async function activeOf(tx: Transaction, userId: string, now: EpochMs): Promise<string[]> {
  await tx.has(GUARD, tokensOf(userId));
  return (await tx.range(tokensOf(userId), { from: now + 1 })).map(({ name }) => name);
}

/** Removes expired tokens until one more fits. Returns whether it does. */
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
    if (!(await removeById(tx, events, name))) tx.unlink(tokensOf(userId), name);
  }
  return true;
}

/** @param most what the number of the owner's tokens does not exceed, if the guard need not say it */
export async function addToken(tx: Transaction, events: Events, token: Token, most?: number): Promise<void> {
  putToken(tx, token);
  await guardAddition(tx, tokensOf(token.userId), most);
  await events.ofToken(tx, 'token.created', token, Date.now());
}

/** Keeps concurrent additions to what a user has within a limit. @param most as for {@link addToken} */
export async function guardAddition(tx: Transaction, index: string, most?: number): Promise<void> {
  const before = most ?? boundOf(await tx.get(GUARD, index));
  tx.put(GUARD, index, before === undefined ? {} : { most: before + 1 });
}

function putToken(tx: Transaction, token: Token): void {
  const { id, digest, userId, expiresAt } = token;
  tx.put(TOKEN, digest, token, keyOf(USER, userId));
  tx.put(TOKEN_ID, id, { digest }, keyOf(TOKEN, digest));
  tx.link(ALL_TOKENS, id, expiresAt ?? NEVER);
  tx.link(tokensOf(userId), id, expiresAt ?? NEVER);
  if (expiresAt === null) tx.unlink(EXPIRY, keyOf(TOKEN_ID, id));
  else tx.link(EXPIRY, keyOf(TOKEN_ID, id), expiresAt);
  if (token.kind === 'legacy_key') tx.link(LEGACY_KEYS, id);
  if (token.predecessorId !== undefined) tx.link(SUCCESSORS, id);
  if (token.declared) tx.link(DECLARED, id);
  if (token.rotated && expiresAt !== null) tx.link(OVERLAPS, id, expiresAt);
  else tx.unlink(OVERLAPS, id);
}

/** Makes a token as another store has it, instead of what has its id or digest. A revoked one stays revoked. */
export async function overwriteToken(tx: Transaction, token: Token, use: TokenUse | null): Promise<void> {
  if (await tx.has(REVOKED, token.digest)) return;
  for (const before of [await readToken(tx, token.id), await tx.get(TOKEN, token.digest)])
    if (before !== undefined) dropToken(tx, before);
  putToken(tx, token);
  await guardAddition(tx, tokensOf(token.userId));
  if (use !== null) tx.put(USE, token.id, use);
}

/** Its last use stays. */
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

/** The same one may be added again. */
export async function removeToken(tx: Transaction, events: Events, token: Token): Promise<void> {
  await events.removed(tx, token);
  dropToken(tx, token);
}

/** Returns whether there was one. */
export async function removeById(tx: Transaction, events: Events, id: string): Promise<boolean> {
  const token = await readToken(tx, id);
  if (token !== undefined) await removeToken(tx, events, token);
  return token !== undefined;
}

/** Without an event. */
export function dropToken(
  tx: Transaction,
  { id, digest, userId }: Pick<Token, 'id' | 'digest' | 'userId'>,
): void {
  tx.remove(TOKEN, digest);
  for (const kind of [TOKEN_ID, USE, WARNED]) tx.remove(kind, id);
  for (const index of [ALL_TOKENS, tokensOf(userId), LEGACY_KEYS, SUCCESSORS, DECLARED, OVERLAPS])
    tx.unlink(index, id);
  tx.unlink(EXPIRY, keyOf(TOKEN_ID, id));
}

export async function revokeToken(tx: Transaction, events: Events, token: Token): Promise<void> {
  await removeToken(tx, events, token);
  tx.tell(`token:${token.id}`);
  forbid(tx, namesOfRevoked(token));
}

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

export async function isNewDigest(tx: Transaction, digest: string): Promise<boolean> {
  return !(await tx.has(TOKEN, digest)) && !(await tx.has(REVOKED, digest));
}

export function rotationStore(transactor: Transactor, events: Events) {
  const { kv } = transactor;
  return {
    /** Adds the replacement, which takes the old token's place among the active ones, and updates the old. */
    rotate: async (rotation: Rotation, owner: VerifiedOwner, limits: TokenLimits, now: EpochMs) =>
      transactor.transact(async (tx) => rotateToken(tx, events, rotation, owner, limits, now), {
        guard: tokensOf(owner.id),
      }),
    /** Counts rotated tokens that are still accepted. */
    countInOverlap: (now: EpochMs) => kv.count(OVERLAPS, now + 1),
    /** Returns those whose overlap ended, each to one caller, which reports it. */
    takeEndedOverlaps: async (endedBefore: EpochMs, limit: number) =>
      transactor.transact(async (tx) => takeEnded(tx, endedBefore, limit), { isReserved: true }),
  };
}

async function rotateToken(
  tx: Transaction,
  events: Events,
  { before, old, replacement }: Rotation,
  owner: VerifiedOwner,
  { active, stored }: TokenLimits,
  now: EpochMs,
): Promise<TokenRotation> {
  if (!isDeepStrictEqual(await readToken(tx, before.id), before)) return 'changed';
  if (owner.id !== before.userId || !isAsVerified(await tx.get(USER, owner.id), owner))
    return 'owner_changed';
  if (active !== null && (await countedOf(tx, owner.id, now)).inOverlap >= active) return 'limit_reached';
  if (stored !== null && !(await makeRoom(tx, events, owner.id, stored, now))) return 'full';
  await replaceToken(tx, events, before, old);
  await addToken(tx, events, replacement);
  tx.tell(`ends:${old.expiresAt}:${old.id}`);
  return 'rotated';
}

async function takeEnded(tx: Transaction, endedBefore: EpochMs, limit: number): Promise<TokenWithUse[]> {
  // One of several callers takes them: each changes this record, and read it before the index.
  await tx.has(GUARD, OVERLAPS);
  const due = await tx.range(OVERLAPS, { to: endedBefore - 1, limit });
  if (due.length > 0) tx.put(GUARD, OVERLAPS, {});
  const taken: TokenWithUse[] = [];
  for (const { name } of due) {
    tx.unlink(OVERLAPS, name);
    const token = await readToken(tx, name);
    if (token !== undefined) taken.push({ token, use: (await tx.peek(USE, name)) ?? null });
  }
  return taken;
}
