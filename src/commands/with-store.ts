import { statSync } from 'node:fs';
import { userInfo } from 'node:os';
import { join } from 'node:path';
import { describeRefusedChange } from '../accounts/refused-change.js';
import { unknown } from '../accounts/unconfirmed.js';
import { loadDirectory } from '../config/directory.js';
import type { LoadedConfig } from '../config/load.js';
import type { AuditEvent } from '../domain/audit.js';
import { type Refusal, Unavailable } from '../domain/refusal.js';
import { connectionFields } from '../util/system-error.js';
import type { EpochMs } from '../util/time.js';
import type { User } from '../domain/user.js';
import type { OpenedStore } from '../server/stores/open-store.js';
import { type Changes, type DirectoryStore, allUsers } from '../store/directory-store.js';
import { OutcomeUnknown, StoreUnusable, UNFINISHED_RESTORE } from '../store/faults.js';
import type { NamedBy } from './terminal/options.js';
import { CommandFailed } from './terminal/output.js';

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

/** Adds a remedy to the error when the server of a store cannot be reached at all, or refuses the login. */
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

/** Finds a user by login or by id. @throws CommandFailed if there is none, or one by each */
export async function findUser(
  directory: Pick<DirectoryStore, 'getUser' | 'getUserByLogin'>,
  name: string,
  { login, id }: NamedBy = {},
  hint = ' (latchkey user list shows them)',
): Promise<User> {
  const byLogin = id ? undefined : await directory.getUserByLogin(name);
  const byId = login ? undefined : await directory.getUser(name);
  const user = onlyUser(name, byLogin, byId);
  if (user !== undefined) return user;
  const kind = login ? 'login' : id ? 'id' : 'login or id';
  throw new CommandFailed(`no user has the ${kind} ${name}${hint}`);
}

/** Returns the user whom a name means. @throws CommandFailed if it is the login of one and the id of another */
export function onlyUser<U extends Pick<User, 'id' | 'login'>>(
  name: string,
  byLogin: U | undefined,
  byId: U | undefined,
): U | undefined {
  if (byLogin !== undefined && byId !== undefined && byLogin.id !== byId.id)
    throw new CommandFailed(
      `${name} is the login of the user with the id ${byLogin.id}, and the id of the user with the ` +
        `login ${byId.login}; add --login or --id to choose one`,
    );
  return byLogin ?? byId;
}

/** Returns the user with an id, which may be the login of another user. */
export async function userWithId(directory: DirectoryStore, id: string): Promise<User> {
  const user = await directory.getUser(id);
  if (user === undefined) throw new CommandFailed(`there is no user ${id} any more`);
  return user;
}

/** Returns the users of one customer, or of all, sorted by login. */
export async function listUsers(directory: DirectoryStore, customerId?: string): Promise<User[]> {
  const users = customerId === undefined ? await allUsers(directory) : await usersOf(directory, customerId);
  return users.toSorted((a, b) => (a.login < b.login ? -1 : 1));
}

async function usersOf(directory: DirectoryStore, customerId: string): Promise<User[]> {
  if ((await directory.getCustomer(customerId)) === undefined)
    throw new CommandFailed(`there is no customer ${customerId}`);
  return directory.listUsers(customerId);
}

export async function changeUser(opened: OpenedStore, user: User, change: Partial<User>): Promise<void> {
  await writeUser(opened, user, (current, now) => ({
    users: [{ ...current, ...change, updatedAt: Math.max(now, current.updatedAt + 1) }],
  }));
}

export async function removeUser(opened: OpenedStore, user: User): Promise<void> {
  await writeUser(opened, user, ({ id }) => ({ removeUsers: [id] }));
}

/** Maximum number of times that a user is read and written. */
const MAX_ATTEMPTS = 5;

/**
 * Writes a change of a user that is based on the current record: a login may have replaced the
 * record since it was read.
 */
async function writeUser(
  { store: { directory } }: OpenedStore,
  user: User,
  changesOf: (current: User, now: EpochMs) => Changes,
): Promise<void> {
  let current = user;
  for (let attempts = 1; ; attempts++) {
    const now = Date.now();
    const basedOn = new Map([[current.id, current.updatedAt]]);
    const refused = await directory.change({ ...changesOf(current, now), basedOn }, now);
    if (refused === undefined) return;
    if (refused.reason !== 'changed_meanwhile' || attempts === MAX_ATTEMPTS)
      throw new CommandFailed(describeRefusedChange(refused));
    current = await userWithId(directory, user.id);
  }
}

/**
 * Warns on stderr when the directory file declares the user: the next start would undo the change.
 */
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

/**
 * Writes what a command has done to the audit log.
 *
 * @param done what the command has done, for the error: it stands without its entry
 * @throws CommandFailed when the audit log is required and cannot be written
 */
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

/**
 * Makes an operator's change and writes it to the audit log, even when its outcome is unknown.
 *
 * @param isChange whether anything was changed; without a change, nothing is written
 */
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
 *
 * @param remedy how to find out what became of a change with an unknown outcome
 * @throws CommandFailed for a refusal
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
