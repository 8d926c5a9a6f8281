import { realpathSync } from 'node:fs';
import { isDeepStrictEqual } from 'node:util';
import type { Difference } from '../accounts/directory-differences.js';
import { directoryRules, loadDirectory } from '../config/directory.js';
import { loadConfig, type LoadedConfig } from '../config/load.js';
import type { AuditEvent } from '../domain/audit.js';
import { counted, printable } from '../util/text.js';
import type { RemovableKind } from '../store/faults.js';
import { writeDirectory } from '../server/reload/directory-file.js';
import { LIVE_MS } from '../store/core/fleet.js';
import type { OpenedStore } from '../server/stores/open-store.js';
import type { Store } from '../store/core/store.js';
import { RecordCheck, RecordsInvalid } from '../store/record-check.js';
import { recordKey, recordsOf, type StoreRecord, synchronize } from '../store/transfer.js';
import { writeBackup } from './backup-file.js';
import { CommandFailed, print, WrongUsage, withProgress } from './terminal/output.js';
import { confirm } from './terminal/password.js';
import { recordChange, recordOperation, withStore } from './with-store.js';

export async function copy(options: { from: string; to: string; yes?: true }): Promise<void> {
  const [source, target] = [loadConfig(options.from), loadConfig(options.to)];
  await withStore(source, (from) =>
    withStore(
      target,
      async (to) => {
        refuseSame(source, target);
        await refuseServed(to.store);
        await refuseEmpty(from.store);
        const continues = await to.store.maintenance.isRestoring();
        if (!continues && !options.yes && (await to.store.directory.listCustomers()).length > 0)
          await confirm('The target holds records, and what only it has is removed. Go on?', 'not copied');
        await to.store.maintenance.setRestoring(true);
        const records = await synchronized(from, to, 'copied');
        const event = { event: 'store.restored', outcome: 'success', reason: 'copy', target: { records } } as const;
        recordOperation(to, [event]);
        const differing: string[] = [];
        await synchronized(from, to, 'compared', (record) => differing.push(recordKey(record)));
        if (differing.length > 0)
          throw new CommandFailed(`${describe(differing)}; stop all writers and run the command again`);
        await to.store.maintenance.setRestoring(false);
        print(`${counted(records, 'record')} copied, both stores are identical\n`);
      },
      { create: 'restore' },
    ),
  );
} // prettier-ignore

/** Compares the places: an interrupted copy leaves its target unusable, which must not be the source. */
function refuseSame(from: LoadedConfig, to: LoadedConfig): void {
  if (isDeepStrictEqual(placeOf(from), placeOf(to)))
    throw new CommandFailed('--from and --to name the same store; nothing was changed');
}

function placeOf({ config: { store } }: LoadedConfig): unknown {
  return store.type === 'lmdb' ? realpathSync(store.path) : store;
}

/** A server would serve what the copy is about to replace, from its cache too. */
async function refuseServed(store: Store): Promise<void> {
  const [member] = await store.fleet.list();
  if (member !== undefined)
    throw new CommandFailed(
      `${member.name} (pid ${member.pid}) serves the target store; stop it, wait ${LIVE_MS / 1000} seconds if it was killed, and run the command again; nothing was changed`,
    );
}

/** Two swapped options would empty the store in use. */
async function refuseEmpty(store: Store): Promise<void> {
  if ((await store.directory.listCustomers()).length === 0)
    throw new CommandFailed('the source has no customers; are --from and --to swapped? Nothing was changed');
}

async function synchronized(
  from: OpenedStore,
  to: OpenedStore,
  done: string,
  differs: (record: StoreRecord) => void = () => undefined,
): Promise<number> {
  const check = new RecordCheck();
  let records = 0;
  async function* checked() {
    for await (const record of withProgress(recordsOf(from.store), done)) {
      records += 1;
      yield check.add(record);
    }
  }
  try {
    await synchronize(from, to, checked(), differs);
    return records;
  } catch (error) {
    return throwInvalid(error);
  }
}

function throwInvalid(error: unknown): never {
  if (!(error instanceof RecordsInvalid)) throw error;
  throw new CommandFailed(`the store ${error.message}; stop all writers and run the command again`);
}

export async function backup(file: string, options: { config: string }): Promise<void> {
  if (file === '' || file === '-')
    throw new WrongUsage('store backup: pass the path of a file; it appears only once it is complete');
  await withStore(loadConfig(options.config), async ({ store }) => {
    const count = await writeBackup(file, withProgress(recordsOf(store), 'written')).catch(throwInvalid);
    print(printable(`${file}: ${counted(count, 'record')}`) + '\n');
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

function describe(differing: readonly string[]): string {
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
