import { RecordCheck } from '../../src/store/record-check.js';
import { recordKey, recordsOf } from '../../src/store/transfer.js';
import type { Store } from '../../src/store/core/store.js';

/**
 * Returns everything that a backup of a store would contain, by record key. It must be restorable.
 */
export async function contentOf(store: Store): Promise<Map<string, unknown>> {
  const check = new RecordCheck();
  const content = new Map<string, unknown>();
  for await (const record of recordsOf(store)) {
    check.add(record);
    // Rewritten keys count their revisions from one again.
    const plain = record.kind === 'signing_keys' ? { kind: record.kind, keys: record.value.keys } : record;
    content.set(recordKey(record), JSON.parse(JSON.stringify(plain)));
  }
  return content;
}
