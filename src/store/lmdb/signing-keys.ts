import type { SigningKeys } from '../../domain/signing-key.js';
import { encode, signingKeysOf } from '../records.js';
import type { Databases } from './databases.js';

const ALL = 'all';

export function readSigningKeys({ signingKeys }: Databases): SigningKeys | undefined {
  const stored = signingKeys.get(ALL);
  return stored === undefined ? undefined : signingKeysOf(stored);
}

/** Writes the keys over those of the revision before. Run it in a write transaction. */
export function replaceSigningKeys(dbs: Databases, next: SigningKeys): boolean {
  if ((readSigningKeys(dbs)?.revision ?? 0) !== next.revision - 1) return false;
  dbs.signingKeys.putSync(ALL, encode(next));
  return true;
}

/** Run it in a write transaction. */
export function removeSigningKeys({ signingKeys }: Databases): boolean {
  return signingKeys.removeSync(ALL);
}
