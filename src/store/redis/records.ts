import type { Session } from '../../domain/session.js';
import type { Token, TokenUse } from '../../domain/token.js';
import type { Customer, Service, User } from '../../domain/user.js';
import { decode } from '../records.js';
import { StoreUnavailable, type TokenWithUse } from '../store.js';

/** Reads one record of each kind. @throws StoreUnavailable for one that is damaged, foreign or of a newer form */
export function userFrom(text: string): User {
  const { loginKey: _, ...user } = decode<User & { loginKey?: string }>('user', parse('user', text), [
    'id',
    'customerId',
    'role',
    'locked',
  ]);
  return user;
}

export function customerFrom(text: string): Customer {
  return decode<Customer>('customer', parse('customer', text), ['id', 'name']);
}

export function serviceFrom(text: string): Service {
  return decode<Service>('service', parse('service', text), ['id', 'customerId']);
}

export function tokenFrom(text: string): Token {
  return decode<Token>('token', parse('token', text), [
    'id',
    'userId',
    'customerId',
    'scopes',
    'services',
    'expiresAt',
    'kind',
  ]);
}

function useFrom(text: string): TokenUse {
  return decode<TokenUse>('use', parse('use', text), ['at', 'ip']);
}

/** A session; its last use is kept apart, because it changes with the traffic. */
export function sessionFrom(text: string, use: string | null | undefined): Session {
  const session = decode<Session>('session', parse('session', text), [
    'id',
    'digest',
    'userId',
    'endsAt',
    'lastSeenAt',
  ]);
  if (use == null) return session;
  const { at, ip, userAgent } = useFrom(use);
  return at > session.lastSeenAt ? { ...session, lastSeenAt: at, ip, userAgent } : session;
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

function parse(kind: string, text: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch {
    throw new StoreUnavailable(`a ${kind} record is damaged`);
  }
}
