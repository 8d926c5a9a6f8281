import type { Session } from '../../domain/session.js';
import type { Token, TokenUse } from '../../domain/token.js';
import type { Customer, Service, User } from '../../domain/user.js';
import { customerOf, serviceOf, sessionOf, tokenOf, useOf, userOf } from '../records.js';
import type { Databases } from './databases.js';

/** Reads and checks one record of each kind; undefined when it is not there. */
export function readUser(dbs: Databases, id: string): User | undefined {
  const stored = dbs.users.get(id);
  return stored === undefined ? undefined : userOf(stored);
}

export function readCustomer(dbs: Databases, id: string): Customer | undefined {
  const stored = dbs.customers.get(id);
  return stored === undefined ? undefined : customerOf(stored);
}

export function readService(dbs: Databases, id: string): Service | undefined {
  const stored = dbs.services.get(id);
  return stored === undefined ? undefined : serviceOf(stored);
}

/** Reads a token by the digest of its secret. */
export function readTokenByDigest(dbs: Databases, digest: string): Token | undefined {
  const stored = dbs.tokens.get(digest);
  return stored === undefined ? undefined : tokenOf(stored);
}

/** Reads a token by its id. */
export function readToken(dbs: Databases, id: string): Token | undefined {
  const digest = dbs.tokenIds.get(id);
  return digest === undefined ? undefined : readTokenByDigest(dbs, digest);
}

export function readUse(dbs: Databases, tokenId: string): TokenUse | null {
  const stored = dbs.uses.get(tokenId);
  return stored === undefined ? null : useOf(stored);
}

export function readSession(dbs: Databases, digest: string): Session | undefined {
  const stored = dbs.sessions.get(digest);
  return stored === undefined ? undefined : sessionOf(stored);
}
