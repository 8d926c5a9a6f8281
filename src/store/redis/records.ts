import { digestOf } from '../../domain/secret.js';
import type { Session } from '../../domain/session.js';
import type { SigningKeys } from '../../domain/signing-key.js';
import type { EpochMs } from '../../util/time.js';
import type { Token, TokenUse } from '../../domain/token.js';
import type { Customer, Service, User, VerifiedOwner } from '../../domain/user.js';
import { partsOf } from '../parts.js';
import {
  customerOf,
  damaged,
  DIGEST_PART,
  encode,
  naming,
  serviceOf,
  sessionOf,
  sessionUseOf,
  signingKeysOf,
  sudoOf,
  tokenOf,
  useOf,
  userOf,
} from '../records.js';
import type { TokenWithUse } from '../token-store.js';

/**
 * Parses a record of one kind.
 *
 * @throws StoreUnavailable if it is damaged, foreign or written by a newer Latchkey
 */
export function userFrom(text: string, id: string): User {
  // The login's key is stored for scripts only.
  const { loginKey: _, ...user } = naming('user', id, () => userOf(parse('user', text))) as User & {
    loginKey?: string;
  };
  return user;
}

export function customerFrom(text: string, id: string): Customer {
  return naming('customer', id, () => customerOf(parse('customer', text)));
}

export function serviceFrom(text: string, id: string): Service {
  return naming('service', id, () => serviceOf(parse('service', text)));
}

/** @param id or the beginning of the digest */
export function tokenFrom(text: string, id: string): Token {
  return naming('token', id, () => tokenOf(parse('token', text)));
}

export function signingKeysFrom(text: string): SigningKeys {
  return signingKeysOf(parse('signing key', text));
}

export function sudoFrom(text: string): { readonly until: EpochMs } {
  return sudoOf(parse('sudo', text));
}

/** Parses a session. Its last use is stored separately, because it changes with the traffic. */
function sessionFrom(text: string, use: string | null | undefined): Session {
  const session = sessionOf(parse('session', text));
  if (use == null) return session;
  const { at, ip, userAgent, idleEndsAt } = sessionUseOf(parse('session use', use));
  return at > session.lastSeenAt ? { ...session, lastSeenAt: at, ip, userAgent, idleEndsAt } : session;
}

/** Parses a token and its use (empty: none). */
function tokenWithUse([id, token, use]: readonly [string, string, string]): TokenWithUse {
  return {
    token: tokenFrom(token, id),
    use: use === '' ? null : naming('token', id, () => useOf(parse('use', use))),
  };
}

/** Parses tokens: the id, the record and the use (empty: none) of each. */
export function tokensIn(texts: readonly string[]): TokenWithUse[] {
  return partsOf(texts, 3).map(([id = '', token = '', use = '']) => tokenWithUse([id, token, use]));
}

/** Parses a session and its use (empty: none). */
export function sessionWithUse([digest, session, use]: readonly [string, string, string]): Session {
  return naming('session', digest.slice(0, DIGEST_PART), () => sessionFrom(session, use === '' ? null : use));
}

/** Parses sessions and their uses (empty: none), which alternate. */
export function endedSessions(texts: readonly string[]): Session[] {
  return partsOf(texts, 2).map(([session = '', use = '']) => sessionFrom(session, use === '' ? null : use));
}

function parse(kind: string, text: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch {
    throw damaged(kind);
  }
}

/** Serializes a record for the store. */
export function text(record: object): string {
  return JSON.stringify(encode(record));
}

/** Serializes the fields of an owner that a script compares. */
export function ownerText(owner: VerifiedOwner): string {
  const { id, customerId, createdAt, passwordHash, otpSecret, locked } = owner;
  // The user's record has this `rehashOf` if the same password was hashed again
  // meanwhile. A script cannot compute it.
  const rehashOf = passwordHash === null ? '' : digestOf(passwordHash);
  return JSON.stringify({ id, customerId, createdAt, passwordHash, rehashOf, otpSecret, locked });
}

/** Returns uses as script arguments: the kind, key and record of each. */
export function useRows(kind: string, uses: ReadonlyMap<string, TokenUse>): [string, string, string][] {
  return [...uses].map(([key, use]) => [kind, key, text(use)]);
}
