import { RecordCheck } from '../../src/store/transfer-check.js';
import type { Store } from '../../src/store/store.js';
import { recordKey, recordsOf } from '../../src/store/transfer.js';

/** Everything that a backup of a store would hold, by name; it must be one that can be restored. */
export async function contentOf(store: Store): Promise<Map<string, unknown>> {
  const check = new RecordCheck();
  const content = new Map<string, unknown>();
  for await (const record of recordsOf(store)) {
    check.add(record);
    // Keys that are written anew count their revisions from one.
    const plain = record.kind === 'signing_keys' ? { kind: record.kind, keys: record.value.keys } : record;
    content.set(recordKey(record), JSON.parse(JSON.stringify(plain)));
  }
  check.end();
  return content;
}
