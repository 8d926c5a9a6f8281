import { describeRefusedChange } from '../accounts/refused-change.js';
import { loadDirectory } from '../config/directory.js';
import type { LoadedConfig } from '../config/load.js';
import type { EpochMs } from '../domain/time.js';
import type { User } from '../domain/user.js';
import type { OpenedStore } from '../server/stores/open-store.js';
import { allUsers, type Changes, type DirectoryStore } from '../store/directory-store.js';
import { CommandFailed } from './terminal/failure.js';
import type { NamedBy } from './terminal/options.js';

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

/** Writes a changed user. @throws CommandFailed */
export async function changeUser(opened: OpenedStore, user: User, change: Partial<User>): Promise<void> {
  await writeUser(opened, user, (current, now) => ({
    users: [{ ...current, ...change, updatedAt: Math.max(now, current.updatedAt + 1) }],
  }));
}

/** Removes a user. @throws CommandFailed when the user has active tokens */
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
