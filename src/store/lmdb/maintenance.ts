import type { Database } from 'lmdb';
import type { EpochMs } from '../../util/time.js';
import { StoreUnusable, UNFINISHED_RESTORE } from '../faults.js';
import type { Maintenance } from '../store.js';
import { WRITES_KEPT_MS } from '../usage-store.js';
import { type Databases, RESTORING } from './databases.js';
import { removeExpired } from './expiry.js';
import { expiredRange, type ExpiryKey } from './expiry-range.js';
import { lmdbRemoveDamaged } from './remove-damaged.js';
import type { Transactions } from './transactions.js';

/** The mark by which a command recognizes a store. */
const MARK = 'recognized_by';

/** Maintains the embedded store. @param close closes the store and what watches it */
export function lmdbMaintenance(transactions: Transactions, close: () => Promise<void>): Maintenance {
  const isRestoring = () => transactions.read(({ meta }) => meta.doesExist(RESTORING));
  return {
    // Opening the store has initialized it.
    initialize: async (purpose) => {
      if (purpose !== 'restore' && isRestoring()) throw new StoreUnusable(UNFINISHED_RESTORE);
    },
    isRestoring,
    setRestoring: async (restoring) =>
      transactions.write(({ meta }) => {
        if (restoring) meta.putSync(RESTORING, Date.now());
        else meta.removeSync(RESTORING);
      }),
    leaveMark: async (mark) => transactions.write(({ meta }) => meta.putSync(MARK, mark)),
    hasMark: (mark) => transactions.read(({ meta }) => meta.get(MARK) === mark),
    probe: async () => void transactions.read((dbs) => dbs.meta.get('format')),
    probeWrite: async () => transactions.write(({ meta }) => meta.putSync('probe', Date.now())),
    clock: async () => Date.now(),
    removeExpired: async (now, tokensBefore, limit) => {
      transactions.forgetKilledReaders();
      const due: ExpiryKey[] = [];
      await transactions.scan(
        ({ expiry }) => expiry,
        [expiredRange(now)],
        (_dbs, key) => {
          if (key[1] !== 'token' || key[0] < tokensBefore) due.push(key);
          return due.length < limit ? undefined : 'stop';
        },
      );
      let removed = 0;
      const remove = (dbs: Databases, key: ExpiryKey): void =>
        void (removed += Number(removeExpired(dbs, key)));
      await transactions.writeInParts(due, remove, 'removal');
      // A full bucket is equivalent to none. One stays until it is full: its token may have been
      // removed, but others may still share it.
      await removeOver(
        transactions,
        ({ rates }) => rates,
        (fullAt) => fullAt <= now,
        limit,
      );
      const isOver = ({ hour }: { hour: EpochMs }) => hour <= now - WRITES_KEPT_MS;
      await removeOver(transactions, ({ writes }) => writes, isOver, limit);
      return removed;
    },
    removeDamaged: lmdbRemoveDamaged(transactions),
    close,
  };
}

/** Removes those values of a database that are over. */
async function removeOver<V>(
  transactions: Transactions,
  select: (dbs: Databases) => Database<V, string>,
  isOver: (value: V) => boolean,
  limit: number,
): Promise<void> {
  const isDueNow = (dbs: Databases, key: string): boolean => {
    const value = select(dbs).get(key);
    return value !== undefined && isOver(value);
  };
  const due: string[] = [];
  await transactions.scan(select, [{}], (dbs, key) => {
    if (isDueNow(dbs, key)) due.push(key);
    return due.length < limit ? undefined : 'stop';
  });
  const remove = (dbs: Databases, key: string): void => {
    if (isDueNow(dbs, key)) select(dbs).removeSync(key);
  };
  await transactions.writeInParts(due, remove, 'removal');
}
