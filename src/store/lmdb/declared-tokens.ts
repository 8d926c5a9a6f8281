import type { Token } from '../../domain/token.js';
import type { ChangeRefused, Changes } from '../directory-store.js';
import { nameOfChange } from '../revocations.js';
import { namesOfRevoked } from '../token-store.js';
import type { Databases } from './databases.js';
import { noteEnded } from './ended-log.js';
import { readToken } from './read.js';
import { addToken, replaceToken, revokeToken } from './tokens.js';

/**
 * Refuses a declared token whose id or digest is taken. Revoked tokens are
 * skipped, so they do not count.
 */
export function refuseDuplicates(dbs: Databases, { declared = [] }: Changes): ChangeRefused | undefined {
  for (const token of declared) {
    if (isRevoked(dbs, token)) continue;
    const before = readToken(dbs, token.id);
    const isOther = before !== undefined && (!before.declared || before.userId !== token.userId);
    if (isOther || (before?.digest !== token.digest && dbs.tokens.doesExist(token.digest)))
      return { reason: 'token_taken', tokenId: token.id };
  }
  return undefined;
}

/**
 * Adds a declared token or overwrites its record, unless it was revoked.
 * Run it in a write transaction.
 */
export function putDeclared(dbs: Databases, token: Token): void {
  if (isRevoked(dbs, token)) return;
  const before = readToken(dbs, token.id);
  if (before === undefined) return addToken(dbs, token);
  replaceToken(dbs, before, token);
  noteEnded(dbs, nameOfChange(token));
  if (before.digest !== token.digest) dbs.revoked.putSync(before.digest, true);
}

/** Revokes a declared token by its id. Run it in a write transaction. */
export function revokeDeclared(dbs: Databases, id: string): void {
  const token = readToken(dbs, id);
  if (token?.declared) revokeToken(dbs, token);
}

function isRevoked(dbs: Databases, token: Token): boolean {
  return namesOfRevoked(token).some((name) => dbs.revoked.doesExist(name));
}
