import type { Database } from 'lmdb';
import type { Session } from '../../domain/session.js';
import type { Token, TokenUse } from '../../domain/token.js';
import type { Customer, Service, User } from '../../domain/user.js';
import { customerOf, DIGEST_PART, naming, serviceOf, sessionOf, tokenOf, useOf, userOf } from '../records.js';
import type { TokenWithUse } from '../token-store.js';
import { type Databases, isKey } from './databases.js';

/** Returns the value of a key that a client may have sent; undefined if it does not exist. */
function lookUp<V>(db: Database<V, string>, key: string): V | undefined {
  return isKey(key) ? db.get(key) : undefined;
}

/** Reads a user by the comparison key of the login name (`loginKey`). */
export function readUserByLogin(dbs: Databases, key: string): User | undefined {
  const id = lookUp(dbs.logins, key);
  return id === undefined ? undefined : readUser(dbs, id);
}

/** Reads and checks a record of one kind; undefined if it does not exist. */
export function readUser(dbs: Databases, id: string): User | undefined {
  const stored = lookUp(dbs.users, id);
  return stored === undefined ? undefined : naming('user', id, () => userOf(stored));
}

export function readCustomer(dbs: Databases, id: string): Customer | undefined {
  const stored = lookUp(dbs.customers, id);
  return stored === undefined ? undefined : naming('customer', id, () => customerOf(stored));
}

export function readService(dbs: Databases, id: string): Service | undefined {
  const stored = lookUp(dbs.services, id);
  return stored === undefined ? undefined : naming('service', id, () => serviceOf(stored));
}

function readTokenByDigest(dbs: Databases, digest: string): Token | undefined {
  const stored = dbs.tokens.get(digest);
  return stored === undefined ? undefined : tokenOf(stored);
}

export function readToken(dbs: Databases, id: string): Token | undefined {
  const digest = lookUp(dbs.tokenIds, id);
  return digest === undefined ? undefined : naming('token', id, () => readTokenByDigest(dbs, digest));
}

/** Reads the last use of a token, which counts as a part of it. */
export function readUse(dbs: Databases, tokenId: string): TokenUse | null {
  const stored = dbs.uses.get(tokenId);
  return stored === undefined ? null : naming('token', tokenId, () => useOf(stored));
}

export function readSession(dbs: Databases, digest: string): Session | undefined {
  const stored = dbs.sessions.get(digest);
  return stored === undefined
    ? undefined
    : naming('session', digest.slice(0, DIGEST_PART), () => sessionOf(stored));
}

export function readTokenWithUse(dbs: Databases, id: string): TokenWithUse | undefined {
  const token = readToken(dbs, id);
  return token && { token, use: readUse(dbs, id) };
}
