import { Argument, Command, Option } from 'commander';
import { REMOVABLE } from '../../store/faults.js';
import {
  calls,
  collect,
  configOption,
  count,
  jsonOption,
  listOf,
  passwordFileOption,
  withConfig,
} from '../terminal/options.js';

const sessionWork = async () => import('../session.js');
const storeWork = async () => import('../store.js');
const tokenWork = async () => import('../token.js');
const userWork = async () => import('../user.js');

export function accountCommands(): Command[] {
  return [
    applyCommand(),
    userCommand(),
    tokenCommand(),
    sessionCommand(),
    hashPasswordCommand(),
    storeCommand(),
  ];
}

function applyCommand(): Command {
  return withConfig('apply', 'apply a directory file to the store: customers, users, services, legacy keys and declared tokens')
    .option('-f, --file <file>', 'the directory file (default: directory.file of the configuration)')
    .option('--dry-run', 'show what would change, without changing it')
    .addHelpText('after', `
A file with an error changes nothing. Up to 500 users or tokens change at once, or not at all; more
change in steps, so run the command again if it is interrupted. What the file does not declare is
removed from the store. A user who still has active tokens is locked, and deleted when the last of
them ends. A declared token that is removed from the file is revoked, and a revoked one never comes
back. A running server sees the changes at its next request. Applying the same file again changes
nothing.`)
    .action(calls(storeWork, 'apply'));
} // prettier-ignore

function hashPasswordCommand(): Command {
  return new Command('hash-password')
    .description('ask for a password and print the password_hash for a directory file')
    .addOption(passwordFileOption())
    .action(calls(async () => import('../init.js'), 'hashPassword'));
}

function userCommand(): Command {
  const user = new Command('user').description('list, show and change users; also while a server is running');
  const add = adderTo(user, userWork);
  const addWithUser = (name: string, work: keyof typeof import('../user.js'), description: string) =>
    add(name, work, description).argument('<login>', 'the login name or the id');

  add('list', 'list', 'list the users');
  addWithUser('show', 'show', 'show a user with the active tokens and sessions');
  addWithUser('set-password', 'setPassword', "set a user's password and end the user's sessions").addOption(passwordFileOption());
  addWithUser('enable-otp', 'enableOtp', 'turn on two-factor authentication and show its secret once; replaces an earlier secret');
  addWithUser('lock', 'lock', 'refuse logins, tokens and sessions of a user until unlock, even if the directory file differs');
  addWithUser('unlock', 'unlock', 'undo lock, and reset the failed logins and one-time passwords of a user');
  addWithUser('delete', 'remove', 'delete a user who has no active tokens');
  return user;
} // prettier-ignore

function tokenCommand(): Command {
  const token = new Command('token').description('list, show, create, rotate, suspend and revoke API tokens; also while a server is running');
  const add = adderTo(token, tokenWork);

  withUser(add('list', 'list', 'list tokens, in parts of 1,000 that are oldest first'), 'only those of this user')
    .option('--limit <n>', 'at most so many', count);
  add('show <id>', 'show', 'show a token');
  withTokenOptions(add('create', 'create', 'create a token for a user and print its secret, which is shown only once'))
    .requiredOption('--user <login>', 'the owner');
  withTokenOptions(token.command('generate'))
    .description('offline: print a secret, which is shown only once, and the entry of directory.yaml that declares its token')
    .requiredOption('--user <id>', 'the id of the owner, who is declared in the same file')
    .addOption(jsonOption())
    .action(calls(tokenWork, 'generate'));
  add('rotate <id>', 'rotate', 'replace a token with a new one and print its secret, which is shown only once; both work during the overlap')
    .option('--overlap <duration>', 'how long the old token still works, like 24h (default: tokens.rotation.overlap)');
  add('suspend <id>', 'suspend', 'refuse a token like an unknown one until resume; the next request with it is refused');
  add('resume <id>', 'resume', 'undo suspend');
  withUser(add('revoke [ids...]', 'revoke', 'revoke tokens, all or none; the next request with one is refused'), 'every token of this user');
  return token;
} // prettier-ignore

function sessionCommand(): Command {
  const session = new Command('session').description('list and end login sessions; also while a server is running');
  const add = adderTo(session, sessionWork);
  withUser(add('list', 'list', 'list active sessions, most recently used first'), 'only those of this user');
  withUser(add('revoke [ids...]', 'revoke', 'end sessions; the next request with one is refused'), 'every session of this user');
  return session;
} // prettier-ignore

function storeCommand(): Command {
  const store = new Command('store').description('copy, back up and restore a store');
  store
    .command('copy')
    .description('bring the store of one configuration to the content of another, then compare')
    .requiredOption('--from <file>', 'the configuration of the store to read')
    .requiredOption('--to <file>', 'the configuration of the store to write')
    .option('--yes', 'do not ask for confirmation')
    .addHelpText('after', `
What is the same is skipped, and what only the target has is removed. No server may use the
target. If the source changes in the meantime, the comparison finds the difference, and the
command says so: run it again. Stop all writers before the final run. Counts of failed logins
are not copied.`)
    .action(calls(storeWork, 'copy'));
  const add = (usage: string, work: ReturnType<typeof calls>, description: string, help: string) =>
    store
      .command(usage)
      .description(description)
      .addOption(configOption())
      .addHelpText('after', `\n${help}`)
      .action(work);
  add('backup <file>', calls(storeWork, 'backup'), 'write all records of the store to a file, which is created with mode 0600', `The file holds digests, password hashes and encrypted one-time-password secrets, but no secret in
plain text. Keep it safe nevertheless. The key that decrypts these secrets (sealing.key in
store.path, or store.sealing_key) is not part of it.`);
  add('restore <file>', calls(async () => import('../restore.js'), 'restore'), 'write all records of a backup into an empty store', `The store is as it was when the backup was made, so tokens that were revoked since then work
again. The command leaves out what the audit log of the configuration and each --audit file list
as revoked or ended, and legacy keys that the store lists as revoked. On a terminal, it says what
comes back, and asks first. Old passwords come back too, and users who were locked are unlocked:
do not start servers until you have repeated the changes that the audit log lists.`)
    .option('--audit <file>', 'an audit log (- for standard input): tokens that it lists as revoked stay revoked; can be repeated', collect)
    .option('--yes', 'do not ask for confirmation');
  add('remove', calls(storeWork, 'removeRecord'), 'remove one record that cannot be read', `A record that can be read stays. The id and the digest of a removed token stay blocked. The tokens
of a removed user are refused until that user exists again.`)
    .addArgument(new Argument('<kind>', 'the kind of the record').choices(REMOVABLE))
    .argument('<id>', 'its id, as the error names it');
  add('forget-signing-keys', calls(storeWork, 'forgetSigningKeys'), 'remove the keys that sign assertions; servers create new ones', `For keys that may be compromised, or that cannot be decrypted. Servers notice within minutes. Until
verifiers have fetched the new keys, upstreams refuse assertions that are signed with them.
Regular rotation does not need this.`);
  return store;
} // prettier-ignore

function adderTo<M>(parent: Command, load: () => Promise<M>) {
  return (usage: string, work: keyof M, description: string) =>
    parent
      .command(usage)
      .description(description)
      .addOption(configOption())
      .addOption(jsonOption())
      .action(calls(load, work));
}

function withUser(command: Command, description: string): Command {
  return command.option('--user <login>', description);
}

function withTokenOptions(command: Command): Command {
  return command
    .option('--name <name>', 'a name that says what it is for')
    .option('--scope <scopes>', 'scopes, separated by spaces (default: global)')
    .option('--services <ids>', 'services to limit it to, separated by commas', listOf)
    .option('--expires-at <time>', 'when it expires, like 2030-01-31T12:00:00Z')
    .addOption(new Option('--expires-in <duration>', 'its lifetime, like 12h or 90d').conflicts('expiresAt'))
    .option('--rate <rate>', 'requests that it may make per period, like 600/1m')
    .option('--address <cidr>', 'an address or range like 10.0.0.0/8 that it is accepted from; can be repeated', collect);
} // prettier-ignore
