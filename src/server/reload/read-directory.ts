import { once } from 'node:events';
import { statSync } from 'node:fs';
import { parentPort, Worker, workerData } from 'node:worker_threads';
import {
  type CheckedDirectory,
  directoryRules,
  type DirectoryRules,
  loadDirectory,
} from '../../config/directory.js';
import type { LoadedConfig } from '../../config/load.js';
import { ConfigError, type Fault } from '../../config/fault.js';

interface DirectoryToRead {
  readonly file: string;
  readonly env: NodeJS.ProcessEnv;
  readonly rules: DirectoryRules;
}

type Reading = { readonly directory: CheckedDirectory } | { readonly faults: readonly Fault[] };

/** Maximum size of files that are read faster than a thread starts, bytes (about 300 users). */
const SMALL = 64 * 1024;

/**
 * Reads and checks the directory file; a large one on a separate thread, because 12,000 users take seconds.
 * @throws ConfigError with all errors
 */
export async function readDirectory({ config }: LoadedConfig): Promise<CheckedDirectory | null> {
  const { file } = config.directory;
  if (file === null) return null;
  const { env } = process;
  const rules = directoryRules(config);
  const size = statSync(file, { throwIfNoEntry: false })?.size ?? 0;
  if (size <= SMALL) return loadDirectory(file, env, rules);
  const worker = new Worker(new URL('./read-directory.js', import.meta.url), {
    workerData: { directoryToRead: { file, env: { ...env }, rules } },
  });
  const [reading] = (await once(worker, 'message')) as [Reading];
  if ('faults' in reading) throw new ConfigError(reading.faults);
  return reading.directory;
}

function read({ file, env, rules }: DirectoryToRead): Reading {
  try {
    return { directory: loadDirectory(file, env, rules) };
  } catch (error) {
    if (error instanceof ConfigError) return { faults: error.faults };
    throw error;
  }
}

/** On that thread. */
const { directoryToRead } = Object(workerData) as { directoryToRead?: DirectoryToRead };
// A thread's port has no origin.
// oxlint-disable-next-line unicorn/require-post-message-target-origin
if (directoryToRead !== undefined) parentPort?.postMessage(read(directoryToRead));
