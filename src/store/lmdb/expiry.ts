import type { EpochMs } from '../../util/time.js';
import type { Databases, Expiring } from './databases.js';
import { expiredRange, type ExpiryKey } from './expiry-range.js';
import { removeExpiredSudo, removeSession } from './session-store.js';
import { readToken } from './read.js';
import { removeToken } from './tokens.js';

/**
 * Removes the record of an index key, unless its expiry has changed. Run it in a write transaction.
 */
export function removeExpired(dbs: Databases, key: ExpiryKey): boolean {
  if (!dbs.expiry.doesExist(key)) return false;
  const [, kind, id] = key;
  remove(dbs, kind, id);
  dbs.expiry.removeSync(key);
  return true;
}

/**
 * Counts expired records. Right after a removal, these are the expired
 * tokens that are kept for a while.
 */
export function countExpired(dbs: Databases, now: EpochMs): number {
  return dbs.expiry.getKeysCount(expiredRange(now));
}

function remove(dbs: Databases, kind: Expiring, id: string): void {
  switch (kind) {
    case 'token': {
      const token = readToken(dbs, id);
      if (token !== undefined) removeToken(dbs, token);
      break;
    }
    case 'session':
      removeSession(dbs, id);
      break;
    case 'failure':
      dbs.attempts.removeSync(id);
      break;
    case 'known':
      dbs.knownAddresses.removeSync(id);
      break;
    case 'logout':
      dbs.logouts.removeSync(id);
      break;
    case 'sudo':
      removeExpiredSudo(dbs, id);
      break;
  }
}
