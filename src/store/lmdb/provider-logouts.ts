import { isEndedBy, type LoginUnderWay, type NotedLogout } from '../../domain/provider-logout.js';
import type { EpochMs } from '../../domain/time.js';
import { decode, encode } from '../records.js';
import type { Databases, StoredLogout } from './databases.js';

/** Whether a logout that is noted ended a login. */
export function isLoggedOut(dbs: Databases, { logouts, ...login }: LoginUnderWay): boolean {
  return logouts.some((name) => {
    const noted = readLogout(dbs, name);
    return noted !== undefined && isEndedBy(login, noted);
  });
}

/** Writes logouts down; of two of one name the later one counts. Run it in a write transaction. */
export function noteLogouts(dbs: Databases, logouts: readonly NotedLogout[], until: EpochMs): void {
  for (const { name, issuedAt, receivedAt } of logouts) {
    const before = readLogout(dbs, name);
    removeLogout(dbs, name);
    const noted: StoredLogout = {
      issuedAt: Math.max(issuedAt, before?.issuedAt ?? 0),
      receivedAt: Math.max(receivedAt, before?.receivedAt ?? 0),
      until: Math.max(until, before?.until ?? 0),
    };
    dbs.logouts.putSync(name, encode(noted));
    dbs.expiry.putSync([noted.until, 'logout', name], true);
  }
}

/** Removes the logout that an entry of the expiry index names. Run it in a write transaction. */
export function removeLogout(dbs: Databases, name: string): void {
  const noted = readLogout(dbs, name);
  if (noted === undefined) return;
  dbs.logouts.removeSync(name);
  dbs.expiry.removeSync([noted.until, 'logout', name]);
}

function readLogout(dbs: Databases, name: string): StoredLogout | undefined {
  const stored = dbs.logouts.get(name);
  if (stored === undefined) return undefined;
  return decode<StoredLogout>('provider logout', stored, ['issuedAt', 'receivedAt', 'until']);
}
