import type { EpochMs } from '../../domain/time.js';
import { encode, sudoOf } from '../records.js';
import { type Databases, listIndex } from './databases.js';

/** Between the ids in the expiry index; no id holds one. */
const SEPARATOR = ' ';

export function hasSudo(dbs: Databases, userId: string, credentialId: string, now: EpochMs): boolean {
  const stored = dbs.sudos.get([userId, credentialId]);
  return stored !== undefined && sudoOf(stored).until > now;
}

/** Writes a sudo over the one before. Run it in a write transaction. */
export function addSudo(dbs: Databases, userId: string, credentialId: string, until: EpochMs): void {
  removeSudo(dbs, userId, credentialId);
  dbs.sudos.putSync([userId, credentialId], encode({ until }));
  dbs.expiry.putSync([until, 'sudo', userId + SEPARATOR + credentialId], true);
}

/** Removes the sudo that an entry of the expiry index names. Run it in a write transaction. */
export function removeExpiredSudo(dbs: Databases, key: string): void {
  const [userId = '', credentialId = ''] = key.split(SEPARATOR);
  removeSudo(dbs, userId, credentialId);
}

/** Run it in a write transaction. */
export function removeSudoGrantsOf(dbs: Databases, userId: string): void {
  for (const credentialId of listIndex(dbs.sudos, userId)) removeSudo(dbs, userId, credentialId);
}

function removeSudo(dbs: Databases, userId: string, credentialId: string): void {
  const stored = dbs.sudos.get([userId, credentialId]);
  if (stored === undefined) return;
  dbs.sudos.removeSync([userId, credentialId]);
  dbs.expiry.removeSync([stored.until, 'sudo', userId + SEPARATOR + credentialId]);
}
