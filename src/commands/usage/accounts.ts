import { Command } from 'commander';
import {
  collect,
  configOption,
  jsonOption,
  listOf,
  passwordFileOption,
  type ReportOptions,
} from '../terminal/options.js';
import type { ApplyOptions } from '../apply.js';
import type { RestoreOptions } from '../restore.js';
import type { SessionOptions } from '../session.js';
import type { CreateOptions } from '../token.js';

// The work of a command is loaded when it is called.
const sessionWork = async () => import('../session.js');
const storeWork = async () => import('../store.js');
const tokenWork = async () => import('../token.js');
const userWork = async () => import('../user.js');

/** `latchkey apply`: brings the store to what a directory file declares. */
export function applyCommand(): Command {
  return new Command('apply')
    .description('bring customers, users, services and legacy keys in the store to what a file declares')
    .addOption(configOption())
    .option('-f, --file <file>', 'the directory file (default: directory.file of the configuration)')
    .option('--dry-run', 'show what would change and change nothing')
    .addHelpText(
      'after',
      `
All of the file is applied, or nothing. What the file does not declare is removed from the store; a user who still has
active tokens is locked until the last of them ends, and then deleted. It can run beside a server, which sees the changes
at its next request. Applying a file twice changes nothing the second time.`,
    )
    .action(async (options: ApplyOptions) => (await import('../apply.js')).apply(options));
}

/** `latchkey hash-password`: prints the `password_hash` of a directory file for a password. */
export function hashPasswordCommand(): Command {
  return new Command('hash-password')
    .description('print the password_hash of a directory file; asks for the password')
    .addOption(passwordFileOption())
    .action(async (options: { passwordFile?: string }) =>
      (await import('../hash-password.js')).hashPassword(options),
    );
}

/** `latchkey user ...`: looks at users and changes them, beside a running server. */
export function userCommand(): Command {
  const user = new Command('user').description('look at users and change them, beside a running server');
  const add = (name: string, description: string) =>
    user.command(name).description(description).addOption(configOption()).addOption(jsonOption());
  const login = ['<login>', 'the login name, or the id'] as const;

  add('list', 'list the users')
    .option('--customer <id>', 'only those of one customer')
    .action(async (options: ReportOptions & { customer?: string }) => (await userWork()).list(options));
  add('show', 'show one user with its active tokens and sessions')
    .argument(...login)
    .action(async (name: string, options: ReportOptions) => (await userWork()).show(name, options));
  add('set-password', "set a user's password and end the user's sessions")
    .argument(...login)
    .addOption(passwordFileOption())
    .action(async (name: string, options: ReportOptions & { passwordFile?: string }) => (await userWork()).setPassword(name, options));
  add('enable-otp', 'turn two-factor authentication on and show its secret once; a secret of before no longer counts')
    .argument(...login)
    .action(async (name: string, options: ReportOptions) => (await userWork()).enableOtp(name, options));
  add('lock', 'refuse logins, tokens and sessions of a user until unlock, whatever a directory says')
    .argument(...login)
    .action(async (name: string, options: ReportOptions) => (await userWork()).lock(name, options));
  add('unlock', 'undo lock, and forget the failed logins and one-time passwords of a user')
    .argument(...login)
    .action(async (name: string, options: ReportOptions) => (await userWork()).unlock(name, options));
  add('delete', 'delete a user who has no active tokens')
    .argument(...login)
    .action(async (name: string, options: ReportOptions) => (await userWork()).remove(name, options));
  return user;
} // prettier-ignore

/** `latchkey token ...`: looks at tokens, creates and revokes them, beside a running server. */
export function tokenCommand(): Command {
  const token = new Command('token').description('look at API tokens, create and revoke them, beside a running server');
  const add = (name: string, description: string) =>
    token.command(name).description(description).addOption(configOption()).addOption(jsonOption());

  add('list', 'list the tokens, the oldest first')
    .option('--user <login>', 'only those of one user')
    .option('--customer <id>', 'only those of one customer')
    .action(async (options: ReportOptions & { user?: string; customer?: string }) => (await tokenWork()).list(options));
  add('show', 'show one token')
    .argument('<id>', 'the id of the token')
    .action(async (id: string, options: ReportOptions) => (await tokenWork()).show(id, options));
  add('create', 'create a token for a user and print its secret, which is shown this once')
    .requiredOption('--user <login>', 'whose it is')
    .option('--name <name>', 'what it is for')
    .option('--scope <scopes>', 'scopes, separated by spaces (default: global)')
    .option('--services <ids>', 'services that it is limited to, separated by commas', listOf)
    .option('--expires-at <time>', 'when it ends, like 2030-01-31T12:00:00Z')
    .action(async (options: CreateOptions) => (await tokenWork()).create(options));
  add('revoke', 'revoke tokens, all of them or none; they are refused from the next request on')
    .argument('[ids...]', 'ids of tokens')
    .option('--user <login>', 'every token of this user')
    .action(async (ids: string[], options: ReportOptions & { user?: string }) => (await tokenWork()).revoke(ids, options));
  return token;
} // prettier-ignore

/** `latchkey session ...`: looks at login sessions and ends them, beside a running server. */
export function sessionCommand(): Command {
  const session = new Command('session').description('look at login sessions and end them, beside a running server');
  const add = (name: string, description: string) =>
    session.command(name).description(description).addOption(configOption()).addOption(jsonOption());
  add('list', 'list the sessions that are on, the latest use first')
    .option('--user <login>', 'only those of one user')
    .action(async (options: SessionOptions) => (await sessionWork()).list(options));
  add('revoke', 'end sessions; they are refused from the next request on')
    .argument('[ids...]', 'ids of sessions')
    .option('--user <login>', 'every session of this user')
    .action(async (ids: string[], options: SessionOptions) => (await sessionWork()).revoke(ids, options));
  return session;
} // prettier-ignore

/** `latchkey store ...`: moves what a store holds to another store, to a file, and back. */
export function storeCommand(): Command {
  const store = new Command('store').description('copy a store to another one, back it up, and restore it');
  store
    .command('copy')
    .description('copy everything from the store of one configuration to that of another, then compare both')
    .requiredOption('--from <file>', 'the configuration of the store to read')
    .requiredOption('--to <file>', 'the configuration of the store to write')
    .addHelpText(
      'after',
      `
Both may be read meanwhile. What is written to the first one during the copy is found by the comparison, and the command
says so; run it again then. Counts of failed logins are not copied.`,
    )
    .action(async (options: { from: string; to: string }) => (await storeWork()).copy(options));
  store
    .command('backup')
    .description('write everything that the store holds to a file')
    .argument('<file>', 'the file; it is made with mode 0600')
    .addOption(configOption())
    .addHelpText(
      'after',
      `
The file holds no secret in the clear, but digests, password hashes and sealed one-time-password secrets: keep it safe.
The key that opens the sealed ones (sealing.key in store.path, or store.sealing_key) is not part of it.`,
    )
    .action(async (file: string, options: { config: string }) => (await storeWork()).backup(file, options));
  store
    .command('restore')
    .description('write everything of a backup into an empty store')
    .argument('<file>', 'the file that backup wrote')
    .addOption(configOption())
    .option(
      '--audit <file>',
      'an audit log: tokens that it tells of as revoked stay revoked; can be given several times',
      collect,
    )
    .option('--yes', 'do not ask on a terminal')
    .addHelpText(
      'after',
      `
Everything is as it was when the backup was made, so tokens that were revoked since then work again. The audit log that
the configuration names is read, and so is each --audit: the tokens that they tell of as revoked, and the sessions as
ended, are left out, and so are legacy keys that the store knows as revoked. On a terminal it says what comes back and
asks first. Old passwords and users who were locked come back too: keep servers away until you have repeated what the
audit log tells.`,
    )
    .action(async (file: string, options: RestoreOptions) =>
      (await import('../restore.js')).restore(file, options),
    );
  store
    .command('forget-signing-keys')
    .description('remove the keys that sign assertions; the servers make new ones')
    .addOption(configOption())
    .addHelpText(
      'after',
      `
For keys that somebody else may know, or that cannot be opened any more. Servers notice within minutes, and until
verifiers have fetched the new keys, upstreams refuse what is signed with them. Keys rotate without this.`,
    )
    .action(async (options: { config: string }) => (await storeWork()).forgetSigningKeys(options));
  return store;
}
