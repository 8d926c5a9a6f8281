// src/commands: a file for each noun of the command line.
// May import doctor, policy-diff and all below.
// `withStore` opens the store for a command; `usage` names the file of each.

import { statSync } from 'node:fs';
import { userInfo } from 'node:os';
import { join } from 'node:path';
import { describeRefusedChange } from '../accounts/directory.js';
import { unknown } from '../accounts/audit-events.js';
import { loadDirectory } from '../config/directory.js';
import type { LoadedConfig } from '../config/load.js';
import type { AuditEvent } from '../domain/audit.js';
import { type Refusal, Unavailable } from '../domain/refusal.js';
import { connectionFields } from '../util/system-error.js';
import type { EpochMs } from '../util/time.js';
import type { User } from '../domain/user.js';
import type { OpenedStore } from '../server/stores/open-store.js';
import type { Changes } from '../store/core/directory-checks.js';
import { allUsers, type DirectoryStore } from '../store/core/directory.js';
import { OutcomeUnknown, StoreUnusable, UNFINISHED_RESTORE } from '../store/faults.js';
import { CommandFailed } from './terminal/output.js';

/**
 * Opens the store for a command; a server may be using it.
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
  // Loads the store's packages, which a command that only looks at a file does not need.
  const { openStore } = await import('../server/stores/open-store.js');
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

function withRemedy(error: unknown, { config, file }: LoadedConfig): unknown {
  const { type } = config.store;
  if (type === 'lmdb' || connectionFields(error).address === undefined) return error;
  const { message } = error as Error;
  // Redis runs, and the message says what the user lacks.
  if (/\bNOPERM\b/.test(message)) return error;
  const [name, login] =
    type === 'redis' ? ['Redis', 'store.username and store.password'] : ['PostgreSQL', 'store.url and store.password'];
  const remedy = /\b(?:NOAUTH|WRONGPASS|authentication failed)\b/.test(message)
    ? `set ${login} in ${file} as in ${name}`
    : `check that ${name} is running and that "store" in ${file} is correct`;
  return new CommandFailed(`${message}; ${remedy}`, { cause: error });
} // prettier-ignore

/**
 * Opening a store that does not exist would create it. One that this user cannot see counts:
 * opening it reports why.
 */
export function hasStore(loaded: LoadedConfig): boolean {
  const path = storePath(loaded);
  if (path === null) return true;
  try {
    statSync(join(path, 'data.mdb'));
    return true;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code !== 'ENOENT';
  }
}

function storePath({ config }: LoadedConfig): string | null {
  return config.store.type === 'lmdb' ? config.store.path : null;
}

export async function findUser(
  directory: Pick<DirectoryStore, 'getUser' | 'getUserByLogin'>,
  name: string,
): Promise<User> {
  const user = onlyUser(name, await directory.getUserByLogin(name), await directory.getUser(name));
  if (user === undefined)
    throw new CommandFailed(`no user has the login or id ${name} (latchkey user list shows them)`);
  return user;
}

/** @throws CommandFailed if the name is the login of one user and the id of another */
export function onlyUser<U extends Pick<User, 'id' | 'login'>>(
  name: string,
  byLogin: U | undefined,
  byId: U | undefined,
): U | undefined {
  if (byLogin !== undefined && byId !== undefined && byLogin.id !== byId.id)
    throw new CommandFailed(
      `${name} is the login of the user with the id ${byLogin.id}, and the id of the user with the ` +
        `login ${byId.login}; write ${byLogin.id} or ${byId.login} instead`,
    );
  return byLogin ?? byId;
}

export async function userWithId(directory: DirectoryStore, id: string): Promise<User> {
  const user = await directory.getUser(id);
  if (user === undefined) throw new CommandFailed(`there is no user ${id} any more`);
  return user;
}

/** In the order of their logins. */
export async function listUsers(directory: DirectoryStore): Promise<User[]> {
  return (await allUsers(directory)).toSorted((a, b) => (a.login < b.login ? -1 : 1));
}

export async function changeUser(opened: OpenedStore, user: User, change: Partial<User>): Promise<void> {
  await writeUser(opened, user, (current, now) => ({
    users: [{ ...current, ...change, updatedAt: Math.max(now, current.updatedAt + 1) }],
  }));
}

const MAX_ATTEMPTS = 5;

/** The change is based on the current record: a login may have replaced the one that was read. */
export async function writeUser(
  { store: { directory } }: OpenedStore,
  { id }: User,
  changesOf: (current: User, now: EpochMs) => Changes,
): Promise<void> {
  for (let attempts = 1; ; attempts++) {
    const current = await userWithId(directory, id);
    const now = Date.now();
    const basedOn = new Map([[id, current.updatedAt]]);
    const refused = await directory.change({ ...changesOf(current, now), basedOn }, now);
    if (refused === undefined) return;
    if (refused.reason !== 'changed_meanwhile' || attempts === MAX_ATTEMPTS)
      throw new CommandFailed(describeRefusedChange(refused));
  }
}

/** The next start would undo the change of a user whom the directory file declares. */
export function warnIfDeclared({ config }: LoadedConfig, user: Pick<User, 'id'>): void {
  const { file } = config.directory;
  if (file === null) return;
  try {
    if (!loadDirectory(file).users.some(({ id }) => id === user.id)) return;
  } catch {
    // An unreadable file says nothing about the user; `check` reports what is wrong with it.
  }
  process.stderr.write(`note: ${file} declares this user; change it there too, or the next start or reload undoes this\n`);
} // prettier-ignore

/** @param done what the command has done, for the error: it stands without its entry */
export function recordOperation(
  { audit }: OpenedStore,
  auditEvents: readonly AuditEvent[],
  done = 'the change was made, but the audit log lacks it',
): void {
  try {
    audit.record(...auditEvents.map((event) => ({ ...event, actor: operator() })));
  } catch (error) {
    if (!(error instanceof Unavailable)) throw error;
    throw new CommandFailed(`${error.message}; ${done}`, { cause: error });
  }
}

/** Makes a change and writes it to the audit log, even when its outcome is unknown. */
export async function recordChange<T>(
  opened: OpenedStore,
  auditEvents: readonly AuditEvent[],
  change: () => Promise<T>,
  isChange: (changed: T) => boolean = () => true,
): Promise<T> {
  let changed: T;
  try {
    changed = await change();
  } catch (error) {
    if (error instanceof OutcomeUnknown) recordOperation(opened, unknown(auditEvents), error.message);
    throw error;
  }
  if (isChange(changed)) recordOperation(opened, auditEvents);
  return changed;
}

/**
 * Makes a change that may be refused. One with an unknown outcome is written to the audit log.
 * @param remedy how to find out what became of it
 */
export async function unlessRefused<T extends object>(
  opened: OpenedStore,
  remedy: string,
  change: () => Promise<T | Refusal>,
): Promise<T> {
  const outcome = await change().catch((error: unknown) => {
    if (!(error instanceof Unavailable) || error.refusal.refusal !== 'outcome_unknown') throw error;
    const unconfirmed = `${error.message}; ${remedy}`;
    recordOperation(opened, error.refusal.auditEvents ?? [], unconfirmed);
    throw new CommandFailed(unconfirmed, { cause: error });
  });
  if (isRefusal(outcome)) {
    const detail = 'detail' in outcome ? outcome.detail : outcome.refusal;
    recordOperation(opened, outcome.auditEvents ?? [], detail);
    throw new CommandFailed(detail);
  }
  return outcome;
}

function isRefusal(outcome: object): outcome is Refusal {
  return 'refusal' in outcome;
}

function operator() {
  const uid = process.getuid?.() ?? null;
  try {
    return { operator: userInfo().username, uid };
  } catch {
    // A container may run under a uid that has no user name.
    return { operator: null, uid };
  }
}
