import { statSync } from 'node:fs';
import { join } from 'node:path';
import type { LoadedConfig } from '../config/load.js';
import { connectionFields } from '../domain/system-error.js';
import { openStore, type OpenedStore } from '../server/stores/open-store.js';
import { StoreUnusable, UNFINISHED_RESTORE } from '../store/faults.js';
import { CommandFailed } from './terminal/failure.js';

/**
 * Opens the store of a configuration for a command, and closes it afterwards. A server may be using
 * it. A store with an unfinished restore is refused.
 *
 * @param create creates the store when there is none; `restore` accepts an unfinished one too
 */
export async function withStore<T>(
  loaded: LoadedConfig,
  work: (opened: OpenedStore) => Promise<T>,
  { create = false }: { create?: boolean | 'restore' } = {},
): Promise<T> {
  if (create === false && !hasStore(loaded)) {
    throw new CommandFailed(
      `${storePath(loaded)} contains no store yet; start the server or run "latchkey apply"`,
    );
  }
  const opened = await openStore(loaded).catch((error: unknown) => {
    throw withRemedy(error, loaded);
  });
  // Records from a backup or from another store are no news for webhooks.
  if (create === 'restore') opened.store.webhooks.subscribe([]);
  try {
    if (create !== false)
      await opened.store.maintenance.initialize(create === 'restore' ? create : undefined);
    // What is read from it would pass for everything, and what is changed in it would be lost.
    else if (await opened.store.maintenance.isRestoring()) throw new StoreUnusable(UNFINISHED_RESTORE);
    return await work(opened);
  } catch (error) {
    throw withRemedy(error, loaded);
  } finally {
    await opened.close();
  }
}

/** Adds a remedy to the error when Redis cannot be reached at all, or refuses the login. */
function withRemedy(error: unknown, { config, file }: LoadedConfig): unknown {
  if (config.store.type !== 'redis' || connectionFields(error).address === undefined) return error;
  const { message } = error as Error;
  // Redis runs, and the message says what the user lacks.
  if (/\bNOPERM\b/.test(message)) return error;
  const remedy = /\b(?:NOAUTH|WRONGPASS)\b/.test(message)
    ? `set store.username and store.password in ${file} as in Redis`
    : `check that Redis is running and that "store" in ${file} is correct`;
  return new CommandFailed(`${message}; ${remedy}`, { cause: error });
}

/**
 * Whether the store exists. Opening one that does not would create it. One that this user cannot
 * see counts: opening it reports why.
 */
export function hasStore(loaded: LoadedConfig): boolean {
  const path = storePath(loaded);
  if (path === null) return true;
  try {
    return statSync(join(path, 'data.mdb'), { throwIfNoEntry: false }) !== undefined;
  } catch {
    return true;
  }
}

function storePath({ config }: LoadedConfig): string | null {
  return config.store.type === 'lmdb' ? config.store.path : null;
}
