import { isDeepStrictEqual } from 'node:util';
import type { Store } from '../store/store.js';
import { recordKey, recordsOf, removeRecords, type StoreRecord } from '../store/transfer.js';
import type { Progress } from './terminal/progress.js';
import { counted } from '../domain/counted.js';

/** Number of records between two progress updates. */
export const STEP = 1_000;

/** Removes what an interrupted restore or copy wrote. */
export async function clearStore(store: Store, progress: Progress): Promise<void> {
  progress.step('the last restore or copy was interrupted: starting over');
  await removeRecords(store);
}

/**
 * Returns the keys of records that differ or that only one side has. Additional revocations in the
 * store do not count.
 */
export async function differences(
  wanted: AsyncIterable<StoreRecord> | Iterable<StoreRecord>,
  store: Store,
  progress: Progress,
): Promise<string[]> {
  const left = new Map<string, StoreRecord>();
  for await (const record of wanted) left.set(recordKey(record), record);
  const differing: string[] = [];
  let count = 0;
  for await (const record of recordsOf(store)) {
    const key = recordKey(record);
    const before = left.get(key);
    const isSame = before !== undefined && isDeepStrictEqual(comparable(before), comparable(record));
    if (!isSame && record.kind !== 'revoked') differing.push(key);
    left.delete(key);
    if (++count % STEP === 0) progress.step(`compared ${counted(count, 'record')}`);
  }
  return [...differing, ...left.keys()];
}

function comparable(record: StoreRecord): unknown {
  // One store keeps a field without a value, another one omits it.
  return JSON.parse(JSON.stringify(essence(record))) as unknown;
}

function essence(record: StoreRecord): unknown {
  // Traffic keeps updating last uses, and sealed values differ each time.
  switch (record.kind) {
    case 'user':
      return { ...record, value: { ...record.value, otpSecret: record.value.otpSecret !== null } };
    case 'token':
      return record.value;
    case 'signing_keys':
      return record.value.keys.map(({ kid, signsFrom }) => ({ kid, signsFrom }));
    case 'session':
      return { ...record.value, lastSeenAt: 0, idleEndsAt: 0, ip: '', userAgent: null };
    default:
      return record.value;
  }
}

/** Describes how many records differ, and names some of them. */
export function describeDifferences(differing: readonly string[]): string {
  const some = differing.slice(0, 5).join(', ');
  const more = differing.length > 5 ? ` and ${differing.length - 5} more` : '';
  return `${counted(differing.length, 'record')} ${differing.length === 1 ? 'differs' : 'differ'} between the stores (${some}${more})`;
}
