import { isDeepStrictEqual } from 'node:util';
import { digestFromHex } from '../domain/secret.js';
import { type EpochMs, wholeSecond } from '../util/time.js';
import { isExpired, restrictedTo, type Token } from '../domain/token.js';
import { namesOfRevoked } from '../store/core/token-records.js';
import type { TokenStore } from '../store/core/tokens.js';
import type { DeclaredToken, Directory } from './declared-directory.js';
import { restrictionsAfter } from './parameters.js';

export interface DeclaredTokensPlan {
  readonly put: readonly Token[];
  readonly revoke: readonly string[];
  /** Declared ids that stay revoked. */
  readonly staysRevoked: readonly string[];
}

/** A token or a secret removed from the file is revoked, and stays so when it is declared again. */
export async function planDeclaredTokens(
  { tokens = [], max_token_lifetime: maxLifetime = null }: Directory,
  known: ReadonlyMap<string, Token>,
  store: Pick<TokenStore, 'filterRevoked'>,
  now: EpochMs,
): Promise<DeclaredTokensPlan> {
  const records = tokens.map((entry) => recordOf(entry, known.get(entry.id), maxLifetime, now));
  const revoked = new Set(await store.filterRevoked(records.flatMap(namesOfRevoked)));
  const declared = new Map(records.map((record) => [record.id, record]));
  // A secret that one entry gives up is revoked before another entry could declare it.
  for (const before of known.values())
    if (declared.get(before.id)?.digest !== before.digest) revoked.add(before.digest);
  const [staysRevoked, wanted]: [string[], Token[]] = [[], []];
  for (const record of records) {
    if (namesOfRevoked(record).some((name) => revoked.has(name))) staysRevoked.push(record.id);
    else wanted.push(record);
  }
  const kept = new Set(wanted.map(({ id }) => id));
  return {
    put: wanted.filter((record) => isToWrite(record, known.get(record.id), now)),
    revoke: [...known.keys()].filter((id) => !kept.has(id)),
    staysRevoked,
  };
}

function recordOf(
  entry: DeclaredToken,
  before: Token | undefined,
  maxLifetime: number | null,
  now: EpochMs,
): Token {
  const createdAt = before?.createdAt ?? wholeSecond(now);
  // A limit that is introduced later does not shorten existing tokens.
  const limit = maxLifetime === null ? Infinity : wholeSecond(createdAt + maxLifetime);
  const latest = before === undefined ? limit : Math.max(limit, before.expiresAt ?? Infinity);
  const expiresAt = Math.min(entry.expires_at ?? Infinity, latest);
  return {
    id: entry.id,
    digest: digestFromHex(entry.secret_sha256),
    kind: 'token',
    userId: entry.user_id,
    name: entry.name,
    scopes: [...new Set(entry.scope)],
    ...restrictedTo(entry.services ?? []),
    createdAt,
    updatedAt: before === undefined ? createdAt : Math.max(wholeSecond(now), before.updatedAt + 1),
    expiresAt: expiresAt === Infinity ? null : wholeSecond(expiresAt),
    declared: true,
    ...restrictionsOf(entry),
  };
}

function restrictionsOf({ rate, addresses, suspended }: DeclaredToken): Pick<Token, 'restrictions'> {
  const own = addresses === undefined ? undefined : [...new Set(addresses)];
  const restrictions = restrictionsAfter(undefined, { rate, addresses: own, suspended });
  return restrictions === undefined ? {} : { restrictions };
}

/** An expired token is not added: it would soon be removed again. */
function isToWrite(record: Token, before: Token | undefined, now: EpochMs): boolean {
  if (before === undefined) return !isExpired(record, now);
  const { updatedAt: _, ...declared } = record;
  const { updatedAt: __, ...stored } = before;
  return !isDeepStrictEqual(declared, stored);
}
