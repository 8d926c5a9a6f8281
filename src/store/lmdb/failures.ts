import type { EpochMs } from '../../domain/time.js';
import { digestOf } from '../../domain/secret.js';
import { decode, encode } from '../records.js';
import type { LoginFailures } from '../store.js';
import type { Databases, FailureRecord } from './databases.js';

/** LMDB's keys are short; a long name is kept by its digest. */
const MAX_KEY = 100;

export function readFailures(dbs: Databases, key: string, now: EpochMs): FailureRecord | undefined {
  const stored = dbs.failures.get(shortKey(key));
  if (stored === undefined) return undefined;
  const record = decode<FailureRecord>('login failure', stored, ['count', 'lastAt', 'forgetAt']);
  return record.forgetAt > now ? record : undefined;
}

/** Counts one more failure. Run it in a write transaction. */
export function addFailure(dbs: Databases, key: string, now: EpochMs, forgetAt: EpochMs): LoginFailures {
  const count = (readFailures(dbs, key, now)?.count ?? 0) + 1;
  removeFailures(dbs, key);
  dbs.failures.putSync(shortKey(key), encode({ count, lastAt: now, forgetAt }));
  dbs.expiry.putSync([forgetAt, 'failure', shortKey(key)], true);
  return { count, lastAt: now };
}

/** Forgets the failures of a key. Run it in a write transaction. */
export function removeFailures(dbs: Databases, key: string): void {
  const stored = dbs.failures.get(shortKey(key));
  if (stored === undefined) return;
  dbs.failures.removeSync(shortKey(key));
  dbs.expiry.removeSync([stored.forgetAt, 'failure', shortKey(key)]);
}

function shortKey(key: string): string {
  return key.length > MAX_KEY || Buffer.byteLength(key) > MAX_KEY ? digestOf(key) : key;
}
