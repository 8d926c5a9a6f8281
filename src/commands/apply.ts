import type { Difference } from '../accounts/directory-differences.js';
import { loadDirectory } from '../config/directory.js';
import { directoryRules } from '../config/directory-rules.js';
import { type LoadedConfig, loadConfig } from '../config/load.js';
import type { AuditEvent } from '../domain/audit.js';
import { counted } from '../domain/counted.js';
import { printable } from '../observe/printable.js';
import { writeDirectory } from '../server/reload/directory-file.js';
import { WrongUsage } from './terminal/failure.js';
import { recordOperation } from './record-operation.js';
import { Progress } from './terminal/progress.js';
import { withStore } from './with-store.js';
import { print } from './terminal/print.js';

export interface ApplyOptions {
  readonly config: string;
  readonly file?: string;
  readonly dryRun?: true;
}

/** Applies a directory file to the store and prints the differences. */
export async function apply(options: ApplyOptions): Promise<void> {
  const loaded = loadConfig(options.config);
  const file = options.file ?? directoryFileOf(loaded);
  const progress = new Progress();
  try {
    progress.step(`reading ${file}`);
    const directory = loadDirectory(file, process.env, directoryRules(loaded.config));
    progress.step('comparing with the store');
    await withStore(
      loaded,
      async (opened) => {
        const note = (events: readonly AuditEvent[]) => recordOperation(opened, events);
        const { differences, revokedTokens } = options.dryRun
          ? await opened.directory.plan(directory, Date.now())
          : await writeDirectory(file, directory, opened.directory, note);
        progress.done();
        print(render(differences, options.dryRun === true));
        for (const id of revokedTokens)
          process.stderr.write(
            `note: the token ${id} was revoked and stays revoked; remove it from ${file}, or declare a new one (latchkey token generate)\n`,
          );
      },
      { create: true },
    );
  } finally {
    progress.done();
  }
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
