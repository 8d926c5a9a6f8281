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

/** Reads one record of each kind. @throws StoreUnavailable for one that is damaged, foreign or of a newer form */
export function userFrom(text: string): User {
  // The login's key is there for scripts only.
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

/** A session; its last use is kept apart, because it changes with the traffic. */
export function sessionFrom(text: string, use: string | null | undefined): Session {
  const session = sessionOf(parse('session', text));
  if (use == null) return session;
  const { at, ip, userAgent, idleEndsAt } = useFrom(use) as TokenUse & Partial<SessionUse>;
  return at > session.lastSeenAt ? { ...session, lastSeenAt: at, ip, userAgent, idleEndsAt } : session;
}

/** Tokens and their uses (empty: none), in turn. */
export function tokensWithUses(texts: readonly string[]): TokenWithUse[] {
  const tokens: TokenWithUse[] = [];
  for (let i = 0; i < texts.length; i += 2) {
    const use = texts[i + 1] ?? '';
    tokens.push({ token: tokenFrom(texts[i] ?? ''), use: use === '' ? null : useFrom(use) });
  }
  return tokens;
}

/** Sessions and their uses (empty: none), in turn. */
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

/** A record as it is written. */
export function text(record: object): string {
  return JSON.stringify(encode(record));
}

/** What a script compares of an owner. */
export function ownerText(owner: VerifiedOwner): string {
  const { id, customerId, createdAt, passwordHash, otpSecret, locked } = owner;
  // What the user's record says when the same password was hashed anew meanwhile; a script can't work it out.
  const rehashOf = passwordHash === null ? '' : digestOf(passwordHash);
  return JSON.stringify({ id, customerId, createdAt, passwordHash, rehashOf, otpSecret, locked });
}

/** Uses as a script takes them: the kind, the key and the record of each. */
export function useRows(kind: string, uses: ReadonlyMap<string, TokenUse>): [string, string, string][] {
  return [...uses].map(([key, use]) => [kind, key, text(use)]);
}
