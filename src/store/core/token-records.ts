/** Tokens as records with their indexes, in a transaction. */
import { idsAfter, type Token } from '../../domain/token.js';
import type { MaybePromise } from '../../util/async.js';
import type { EpochMs } from '../../util/time.js';
import { namesOfRevoked } from '../token-store.js';
import type { Events } from './events.js';
import {
  ALL_TOKENS,
  DECLARED,
  EXPIRY,
  LEGACY_KEYS,
  NEVER,
  OVERLAPS,
  REVOKED_NAMES,
  SUCCESSORS,
  tokensOf,
} from './indexes.js';
import { GUARD, keyOf, REVOKED, TOKEN, TOKEN_ID, USE, USER, WARNED } from './kinds.js';
import type { Member, Range } from './kv.js';
import type { Transaction } from './transaction.js';

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
    const token = await readToken(tx, name);
    if (token !== undefined) await removeToken(tx, events, token);
    else tx.unlink(tokensOf(userId), name);
  }
  return true;
}

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
  if (expiresAt === null) tx.unlink(EXPIRY, keyOf(TOKEN_ID, id));
  else tx.link(EXPIRY, keyOf(TOKEN_ID, id), expiresAt);
  if (token.kind === 'legacy_key') tx.link(LEGACY_KEYS, id);
  if (token.predecessorId !== undefined) tx.link(SUCCESSORS, id);
  if (token.declared) tx.link(DECLARED, id);
  if (token.rotated && expiresAt !== null) tx.link(OVERLAPS, id, expiresAt);
  else tx.unlink(OVERLAPS, id);
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
