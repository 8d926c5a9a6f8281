import { digestOf } from '../../domain/secret.js';
import type { Session } from '../../domain/session.js';
import type { SigningKeys } from '../../domain/signing-key.js';
import type { EpochMs } from '../../domain/time.js';
import type { SessionUse, Token, TokenUse } from '../../domain/token.js';
import type { Customer, Service, User, VerifiedOwner } from '../../domain/user.js';
import {
  customerOf,
  damaged,
  encode,
  serviceOf,
  sessionOf,
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
export function userFrom(text: string): User {
  // The login's key is stored for scripts only.
  const { loginKey: _, ...user } = userOf(parse('user', text)) as User & { loginKey?: string };
  return user;
}

export function customerFrom(text: string): Customer {
  return customerOf(parse('customer', text));
}

export function serviceFrom(text: string): Service {
  return serviceOf(parse('service', text));
}

export function tokenFrom(text: string): Token {
  return tokenOf(parse('token', text));
}

export function signingKeysFrom(text: string): SigningKeys {
  return signingKeysOf(parse('signing key', text));
}

export function sudoFrom(text: string): { readonly until: EpochMs } {
  return sudoOf(parse('sudo', text));
}

function useFrom(text: string): TokenUse {
  return useOf(parse('use', text));
}

/** Parses a session. Its last use is stored separately, because it changes with the traffic. */
export function sessionFrom(text: string, use: string | null | undefined): Session {
  const session = sessionOf(parse('session', text));
  if (use == null) return session;
  const { at, ip, userAgent, idleEndsAt } = useFrom(use) as TokenUse & Partial<SessionUse>;
  return at > session.lastSeenAt ? { ...session, lastSeenAt: at, ip, userAgent, idleEndsAt } : session;
}

/** Parses tokens and their uses (empty: none), which alternate. */
export function tokensWithUses(texts: readonly string[]): TokenWithUse[] {
  const tokens: TokenWithUse[] = [];
  for (let i = 0; i < texts.length; i += 2) {
    const use = texts[i + 1] ?? '';
    tokens.push({ token: tokenFrom(texts[i] ?? ''), use: use === '' ? null : useFrom(use) });
  }
  return tokens;
}

/** Parses sessions and their uses (empty: none), which alternate. */
export function sessionsWithUses(texts: readonly string[]): Session[] {
  const sessions: Session[] = [];
  for (let i = 0; i < texts.length; i += 2)
    sessions.push(sessionFrom(texts[i] ?? '', texts[i + 1] === '' ? null : texts[i + 1]));
  return sessions;
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
