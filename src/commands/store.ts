import { realpathSync } from 'node:fs';
import { isDeepStrictEqual } from 'node:util';
import type { Difference } from '../accounts/directory-differences.js';
import type { Sealer } from '../accounts/sealing.js';
import { directoryRules, loadDirectory } from '../config/directory.js';
import { loadConfig, type LoadedConfig } from '../config/load.js';
import type { AuditEvent } from '../domain/audit.js';
import { counted, printable } from '../util/text.js';
import { ownerOf } from '../domain/signing-key.js';
import type { RemovableKind } from '../store/records.js';
import { writeDirectory } from '../server/reload/directory-file.js';
import type { Store } from '../store/core/store.js';
import {
  RecordCheck,
  recordKey,
  RecordsInvalid,
  recordsOf,
  removeRecords,
  type StoreRecord,
  writeRecords,
} from '../store/transfer.js';
import { replacedBackup, writeBackup } from './backup-file.js';
import { CommandFailed, print, WrongUsage } from './terminal/output.js';
import { recordChange, recordOperation, withStore } from './with-store.js';

export async function copy(options: { from: string; to: string }): Promise<void> {
  const [source, target] = [loadConfig(options.from), loadConfig(options.to)];
  await withStore(source, (from) =>
    withStore(
      target,
      async (to) => {
        refuseSame(source, target);
        const records = await readChecked(from.store, resealing(from.sealer, to.sealer));
        if (await to.store.maintenance.isRestoring()) await removeRecords(to.store);
        else await refuseOthers(to.store, records);
        await to.store.maintenance.setRestoring(true);
        await writeRecords(to.store, records);
        recordOperation(to, [
          {
            event: 'store.restored',
            outcome: 'success',
            reason: 'copy',
            target: { records: records.length },
          },
        ]);
        const differing = await differences(recordsOf(from.store), to.store);
        if (differing.length > 0)
          throw new CommandFailed(
            `${describeDifferences(differing)}; stop all writers and run the command again`,
          );
        await to.store.maintenance.setRestoring(false);
        print(`${counted(records.length, 'record')} copied, both stores are identical\n`);
      },
      { create: 'restore' },
    ),
  );
}

/** Compares the places: an interrupted copy leaves its target unusable, which must not be the source. */
function refuseSame(from: LoadedConfig, to: LoadedConfig): void {
  if (isDeepStrictEqual(placeOf(from), placeOf(to)))
    throw new CommandFailed('--from and --to name the same store; nothing was changed');
}

function placeOf({ config: { store } }: LoadedConfig): unknown {
  return store.type === 'lmdb' ? realpathSync(store.path) : store;
}

/** Checks all records before any is written elsewhere. */
async function readChecked(
  store: Store,
  reseal: (record: StoreRecord) => StoreRecord,
): Promise<StoreRecord[]> {
  const records: StoreRecord[] = [];
  const check = new RecordCheck();
  try {
    for await (const record of recordsOf(store)) records.push(reseal(check.add(record)));
    check.end();
  } catch (error) {
    if (!(error instanceof RecordsInvalid)) throw error;
    throw new CommandFailed(`the store ${error.message}; nothing was changed; stop all writers and run the command again`);
  }
  return records;
} // prettier-ignore

/** A copy removes nothing, so other records in the target would keep the stores different. */
async function refuseOthers(store: Store, records: readonly StoreRecord[]): Promise<void> {
  const keys = new Set(records.map(recordKey));
  const others: string[] = [];
  for await (const record of recordsOf(store))
    if (record.kind !== 'revoked' && !keys.has(recordKey(record))) others.push(recordKey(record));
  if (others.length > 0)
    throw new CommandFailed(
      `${describeDifferences(others)}: these exist only in the target store; remove them there, or copy into an empty store; nothing was changed`,
    );
}

/** Each store has its own sealing key. */
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

export async function backup(file: string, options: { config: string }): Promise<void> {
  if (file === '' || file === '-')
    throw new WrongUsage('store backup: pass the path of a file; it appears only once it is complete');
  await withStore(loadConfig(options.config), async ({ store }) => {
    const replaced = await replacedBackup(file);
    const count = await writeBackup(file, recordsOf(store));
    const note = replaced === undefined ? '' : `; replaced the backup of ${replaced}`;
    print(printable(`${file}: ${counted(count, 'record')}${note}`) + '\n');
  });
}

export async function removeRecord(
  kind: RemovableKind,
  id: string,
  options: { config: string },
): Promise<void> {
  await withStore(loadConfig(options.config), async (opened) => {
    opened.audit.ensureWritable();
    const { maintenance } = opened.store;
    const event: AuditEvent = { event: 'store.record_removed', outcome: 'success', target: { kind, id } };
    const remove = async () => maintenance.removeDamaged(kind, id);
    if (!(await recordChange(opened, [event], remove, (isRemoved) => isRemoved)))
      throw new CommandFailed(`the store has no ${kind} ${id} that cannot be read`);
    print(printable(`${kind} ${id}: removed`) + '\n');
  });
}

export async function forgetSigningKeys(options: { config: string }): Promise<void> {
  await withStore(loadConfig(options.config), async (opened) => {
    opened.audit.ensureWritable();
    if (!(await opened.store.signingKeys.remove())) throw new CommandFailed('the store has no signing keys');
    recordOperation(opened, [{ event: 'signing_keys.removed', outcome: 'success' }]);
    print('signing keys removed\n');
  });
}

/** Additional revocations in the store are no difference. */
export async function differences(
  wanted: AsyncIterable<StoreRecord> | Iterable<StoreRecord>,
  store: Store,
): Promise<string[]> {
  const left = new Map<string, StoreRecord>();
  for await (const record of wanted) left.set(recordKey(record), record);
  const differing: string[] = [];
  for await (const record of recordsOf(store)) {
    const key = recordKey(record);
    const before = left.get(key);
    const isSame = before !== undefined && isDeepStrictEqual(comparable(before), comparable(record));
    if (!isSame && record.kind !== 'revoked') differing.push(key);
    left.delete(key);
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

export function describeDifferences(differing: readonly string[]): string {
  const some = differing.slice(0, 5).join(', ');
  const more = differing.length > 5 ? ` and ${differing.length - 5} more` : '';
  return `${counted(differing.length, 'record')} ${differing.length === 1 ? 'differs' : 'differ'} between the stores (${some}${more})`;
}

interface ApplyOptions {
  readonly config: string;
  readonly file?: string;
  readonly dryRun?: true;
}

export async function apply(options: ApplyOptions): Promise<void> {
  const loaded = loadConfig(options.config);
  const file = options.file ?? directoryFileOf(loaded);
  const directory = loadDirectory(file, process.env, directoryRules(loaded.config));
  await withStore(
    loaded,
    async (opened) => {
      const note = (events: readonly AuditEvent[]) => recordOperation(opened, events);
      const { differences, revokedTokens } = options.dryRun
        ? await opened.directory.plan(directory, Date.now())
        : await writeDirectory(file, directory, opened.directory, note);
      print(render(differences, options.dryRun === true));
      for (const id of revokedTokens)
        process.stderr.write(
          `note: the token ${id} was revoked and stays revoked; remove it from ${file}, or declare a new one (latchkey token generate)\n`,
        );
    },
    { create: true },
  );
}

function directoryFileOf({ config }: LoadedConfig): string {
  if (config.directory.file !== null) return config.directory.file;
  throw new WrongUsage('apply: the configuration has no directory.file; pass a file with -f FILE');
}

const SIGNS = { add: '+', update: '~', remove: '-' } as const;

function render(differences: readonly Difference[], dryRun: boolean): string {
  if (differences.length === 0) return 'nothing to change\n';
  const lines = differences.map(({ change, kind, id, details }) =>
    printable(
      kind === 'legacy_keys'
        ? `${SIGNS[change]} legacy keys of customer ${id}: ${details.join(', ')}`
        : `${SIGNS[change]} ${kind} ${id}: ${details.join(', ')}`,
    ),
  );
  const count = counted(lines.length, 'difference');
  return `${lines.join('\n')}\n${count}, ${dryRun ? 'not applied (--dry-run)' : 'applied'}\n`;
}
