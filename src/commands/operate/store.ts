import { isDeepStrictEqual } from 'node:util';
import type { Sealer } from '../../accounts/sealing.js';
import { loadConfig } from '../../config/load.js';
import { ownerOf } from '../../domain/signing-key.js';
import type { Store } from '../../store/store.js';
import { recordKey, recordsOf, RecordWriter, type StoreRecord } from '../../store/transfer.js';
import { readBackup, writeBackup } from './backup-file.js';
import { CommandFailed } from '../terminal/failure.js';
import { recordOperation } from './operator.js';
import { Progress } from '../terminal/progress.js';
import { withStore } from './store-access.js';

const STEP = 1_000;

/** Copies everything from one store to another and compares both. */
export async function copy(options: { from: string; to: string }): Promise<void> {
  const progress = new Progress();
  await withStore(loadConfig(options.from), (from) =>
    withStore(
      loadConfig(options.to),
      async (to) => {
        const reseal = resealing(from.sealer, to.sealer);
        const writer = new RecordWriter(to.store);
        let count = 0;
        for await (const record of recordsOf(from.store)) {
          await writer.write(reseal(record));
          if (++count % STEP === 0) progress.step(`copied ${count} records`);
        }
        await writer.flush();
        const target = { records: count };
        recordOperation(to, { event: 'store.restored', outcome: 'success', reason: 'copy', target });
        const differing = await compare(from.store, to.store, progress);
        progress.done();
        if (differing.length > 0) throw new CommandFailed(describeDifferences(differing));
        process.stdout.write(`${count} records copied, both stores hold the same\n`);
      },
      { create: true },
    ),
  );
}

/** What is sealed is encrypted under a key of each store, with values that differ each time. */
function resealing(from: Sealer, to: Sealer): (record: StoreRecord) => StoreRecord {
  return (record) => {
    if (record.kind === 'signing_keys') {
      const keys = record.value.keys.map((key) => {
        const owner = ownerOf(key);
        return { ...key, sealedKey: to.seal(from.open(key.sealedKey, owner), owner) };
      });
      return { ...record, value: { ...record.value, keys } };
    }
    if (record.kind !== 'user' || record.value.otpSecret === null) return record;
    const { id, otpSecret } = record.value;
    return { ...record, value: { ...record.value, otpSecret: to.seal(from.open(otpSecret, id), id) } };
  };
}

/** Names of the records that one store has and the other has not, or differently. */
async function compare(from: Store, to: Store, progress: Progress): Promise<string[]> {
  const left = new Map<string, StoreRecord>();
  for await (const record of recordsOf(from)) left.set(recordKey(record), record);
  const differing: string[] = [];
  let count = 0;
  for await (const record of recordsOf(to)) {
    const key = recordKey(record);
    const before = left.get(key);
    if (before === undefined || !isDeepStrictEqual(comparable(before), comparable(record))) differing.push(key);
    left.delete(key);
    if (++count % STEP === 0) progress.step(`compared ${count} records`);
  }
  return [...differing, ...left.keys()];
} // prettier-ignore

function comparable(record: StoreRecord): unknown {
  // One store keeps a field without a value and another one leaves it out.
  return JSON.parse(JSON.stringify(essence(record))) as unknown;
}

function essence(record: StoreRecord): unknown {
  // Traffic goes on writing last uses, and each sealing differs.
  switch (record.kind) {
    case 'user':
      return { ...record, value: { ...record.value, otpSecret: record.value.otpSecret !== null } };
    case 'token':
      return record.value;
    case 'signing_keys':
      return record.value.keys.map(({ kid, signsFrom }) => ({ kid, signsFrom }));
    case 'session':
      return { ...record.value, lastSeenAt: 0, ip: '', userAgent: null };
    default:
      return record.value;
  }
}

function describeDifferences(differing: readonly string[]): string {
  const some = differing.slice(0, 5).join(', ');
  const more = differing.length > 5 ? ` and ${differing.length - 5} more` : '';
  return `${differing.length} records differ between the stores (${some}${more}); run it again when nothing is written`;
}

/** Writes everything that the store holds to a file. */
export async function backup(file: string, options: { config: string }): Promise<void> {
  const progress = new Progress();
  await withStore(loadConfig(options.config), async ({ store }) => {
    const count = await writeBackup(file, recordsOf(store), (done) => {
      if (done % STEP === 0) progress.step(`${done} records`);
    });
    progress.done();
    process.stdout.write(`${file}: ${count} records\n`);
  });
}

/** Writes everything of a backup into an empty store. */
export async function restore(file: string, options: { config: string }): Promise<void> {
  const progress = new Progress();
  progress.step(`reading ${file}`);
  const records = await readBackup(file);
  await withStore(
    loadConfig(options.config),
    async (room) => {
      const { store, sealer } = room;
      if ((await store.listCustomers()).length > 0) {
        throw new CommandFailed('the store is not empty; a backup is restored into an empty one');
      }
      refuseUnopenable(records, sealer);
      const writer = new RecordWriter(store);
      for (const [i, record] of records.entries()) {
        await writer.write(record);
        if (i % STEP === 0) progress.step(`restored ${i} of ${records.length} records`);
      }
      await writer.flush();
      const target = { records: records.length };
      recordOperation(room, { event: 'store.restored', outcome: 'success', reason: 'restore', target });
      progress.done();
      process.stdout.write(`${records.length} records restored\n`);
    },
    { create: true },
  );
}

/** @throws SealBroken, SealingKeyMissing before anything is written */
function refuseUnopenable(records: readonly StoreRecord[], sealer: Sealer): void {
  for (const record of records) {
    if (record.kind === 'user' && record.value.otpSecret !== null)
      sealer.open(record.value.otpSecret, record.value.id);
    if (record.kind !== 'signing_keys') continue;
    for (const key of record.value.keys) sealer.open(key.sealedKey, ownerOf(key));
  }
}

/** Removes the keys that sign assertions. */
export async function forgetSigningKeys(options: { config: string }): Promise<void> {
  await withStore(loadConfig(options.config), async (room) => {
    room.audit.ensureWritable();
    if (!(await room.store.removeSigningKeys())) throw new CommandFailed('the store holds no signing keys');
    recordOperation(room, { event: 'signing_keys.removed', outcome: 'success' });
    process.stdout.write('the signing keys are removed\n');
  });
}
