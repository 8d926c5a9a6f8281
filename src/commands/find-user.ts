import { describeRefusedChange } from '../accounts/refused-change.js';
import { loadDirectory } from '../config/directory.js';
import type { LoadedConfig } from '../config/load.js';
import type { User } from '../domain/user.js';
import type { OpenedStore } from '../server/stores/open-store.js';
import type { DirectoryStore } from '../store/directory-store.js';
import { CommandFailed } from './terminal/failure.js';

/** Finds a user by login or by id. */
export async function findUser(directory: DirectoryStore, name: string): Promise<User> {
  const user = (await directory.getUserByLogin(name)) ?? (await directory.getUser(name));
  if (user === undefined) {
    throw new CommandFailed(`no user has the login or id ${name} (latchkey user list shows them)`);
  }
  return user;
}

/** Returns the users of one customer, or of all, sorted by login. */
export async function listUsers(directory: DirectoryStore, customerId?: string): Promise<User[]> {
  const ids =
    customerId === undefined ? (await directory.listCustomers()).map(({ id }) => id) : [await known(directory, customerId)];
  const users: User[] = [];
  for (const id of ids) users.push(...(await directory.listUsers(id)));
  return users.toSorted((a, b) => (a.login < b.login ? -1 : 1));
} // prettier-ignore

async function known(directory: DirectoryStore, customerId: string): Promise<string> {
  if ((await directory.getCustomer(customerId)) === undefined)
    throw new CommandFailed(`there is no customer ${customerId}`);
  return customerId;
}

/** Writes a changed user. @throws CommandFailed when it was changed concurrently */
export async function changeUser({ store }: OpenedStore, user: User, change: Partial<User>): Promise<void> {
  const now = Date.now();
  const changed: User = { ...user, ...change, updatedAt: Math.max(now, user.updatedAt + 1) };
  const basedOn = new Map([[user.id, user.updatedAt]]);
  const refused = await store.directory.change({ users: [changed], basedOn }, now);
  if (refused !== undefined) throw new CommandFailed(describeRefusedChange(refused));
}

/**
 * Warns on stderr when the directory file declares the user: the next start would undo the change.
 */
export function warnIfDeclared({ config }: LoadedConfig, user: User): void {
  const { file } = config.directory;
  if (file === null) return;
  try {
    if (!loadDirectory(file).users.some(({ id }) => id === user.id)) return;
  } catch {
    // An unreadable file says nothing about the user; `check` reports what is wrong with it.
  }
  process.stderr.write(`note: ${file} declares this user; change it there too, or the next start or reload undoes this\n`);
} // prettier-ignore
