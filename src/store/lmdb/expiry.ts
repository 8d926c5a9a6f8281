import type { EpochMs } from '../../domain/time.js';
import type { Databases, Expiring } from './databases.js';
import { removeFailures } from './failures.js';
import { readToken } from './read.js';
import { removeSession } from './sessions.js';
import { removeExpiredSudo } from './sudos.js';
import { removeToken } from './tokens.js';

/** Behind every kind in the order of keys. */
const LAST_KIND = '\uffff' as Expiring;

/**
 * Removes what expired, at most `limit` records, and returns how many. Run it in a write transaction.
 *
 * @param tokensBefore tokens stay until their expiry lies before this
 */
export function removeExpired(dbs: Databases, now: EpochMs, tokensBefore: EpochMs, limit: number): number {
  let removed = 0;
  for (const key of dueKeys(dbs, now, tokensBefore, limit)) {
    const [, kind, id] = key;
    remove(dbs, kind, id);
    dbs.expiry.removeSync(key);
    removed += 1;
  }
  return removed;
}

/** How many records are past their time: right behind {@link removeExpired} these are tokens that are kept a while. */
export function countExpired(dbs: Databases, now: EpochMs): number {
  return dbs.expiry.getKeysCount(until(now));
}

function until(now: EpochMs): { start: [number, Expiring, string]; end: [number, Expiring, string] } {
  return { start: [0, 'failure', ''], end: [now, LAST_KIND, ''] };
}

function dueKeys(
  dbs: Databases,
  now: EpochMs,
  tokensBefore: EpochMs,
  limit: number,
): [number, Expiring, string][] {
  const due: [number, Expiring, string][] = [];
  for (const key of dbs.expiry.getKeys(until(now))) {
    if (key[1] === 'token' && key[0] >= tokensBefore) continue;
    due.push([...key]);
    if (due.length === limit) break;
  }
  return due;
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
      removeFailures(dbs, id);
      break;
    case 'sudo':
      removeExpiredSudo(dbs, id);
      break;
  }
}
