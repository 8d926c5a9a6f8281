import type { EpochMs } from '../../domain/time.js';
import type { Databases, Expiring } from './databases.js';
import { removeFailures } from './failures.js';
import { readToken } from './read.js';
import { removeSession } from './sessions.js';
import { removeToken } from './tokens.js';

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

function dueKeys(
  dbs: Databases,
  now: EpochMs,
  tokensBefore: EpochMs,
  limit: number,
): [number, Expiring, string][] {
  const due: [number, Expiring, string][] = [];
  for (const key of dbs.expiry.getKeys({ start: [0, 'failure', ''], end: [now, '\uffff', ''] })) {
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
  }
}
