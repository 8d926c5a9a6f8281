import type { EpochMs } from '../../domain/time.js';
import type { Databases, Expiring } from './databases.js';
import { removeExpiredSudo, removeLogout, removeSession } from './session-store.js';
import { readToken } from './read.js';
import { removeToken } from './tokens.js';
import { removeCount, removeKnownAddresses } from './login-throttle-store.js';

/** Behind every kind in the order of keys. */
const LAST_KIND = '\uffff' as Expiring;

export type ExpiryKey = [EpochMs, Expiring, string];

/** The keys of the index whose time has come. */
export function expiredRange(now: EpochMs): { start: ExpiryKey; end: ExpiryKey } {
  return { start: [0, 'failure', ''], end: [now, LAST_KIND, ''] };
}

/** The keys of the index whose time lies behind one time, up to another one. */
export function expiringRange(from: EpochMs, until: EpochMs): { start: ExpiryKey; end: ExpiryKey } {
  return { start: [from, LAST_KIND, ''], end: [until, LAST_KIND, ''] };
}

/** Whether what expired is to be removed. @param tokensBefore tokens stay until their expiry lies before this */
export function isDue([time, kind]: ExpiryKey, tokensBefore: EpochMs): boolean {
  return kind !== 'token' || time < tokensBefore;
}

/** Removes what a key of the index stands for, unless its time changed meanwhile. Run it in a write transaction. */
export function removeExpired(dbs: Databases, key: ExpiryKey): boolean {
  if (!dbs.expiry.doesExist(key)) return false;
  const [, kind, id] = key;
  remove(dbs, kind, id);
  dbs.expiry.removeSync(key);
  return true;
}

/** How many records are past their time: right behind the removal of what is due these are tokens that are kept a while. */
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
      removeCount(dbs, id);
      break;
    case 'known':
      removeKnownAddresses(dbs, id);
      break;
    case 'logout':
      removeLogout(dbs, id);
      break;
    case 'sudo':
      removeExpiredSudo(dbs, id);
      break;
  }
}
