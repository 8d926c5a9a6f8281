import { Command } from 'commander';
import { Secret, TOTP } from 'otpauth';
import { isGlobalApiTokenUser } from '../../accounts/legacy-keys.js';
import { describeRefusedChange } from '../../accounts/refused-change.js';
import { type LoadedConfig, loadConfig } from '../../config/load.js';
import type { AuditFact } from '../../domain/audit.js';
import { formatTime } from '../../domain/time.js';
import { isExpired } from '../../domain/token.js';
import type { User } from '../../domain/user.js';
import type { StoreRoom } from '../../server/stores/store-room.js';
import { CommandFailed } from '../terminal/failure.js';
import { recordOperation } from './operator.js';
import { configOption, jsonOption, passwordFileOption } from '../terminal/options.js';
import { ask, readNewPassword } from '../terminal/password.js';
import { changeUser, findUser, listUsers, warnIfDeclared } from './people.js';
import { withStore } from './store-access.js';
import { relativeTime, renderRecord, renderTable, report } from '../terminal/output.js';

interface Common {
  readonly config: string;
  readonly json?: true;
}

const SECRET_BYTES = 20;

/** `latchkey user ...`: looks at users and changes them, beside a running server. */
export function userCommand(): Command {
  const user = new Command('user').description('look at users and change them, beside a running server');
  const add = (name: string, description: string) =>
    user.command(name).description(description).addOption(configOption()).addOption(jsonOption());
  const login = ['<login>', 'the login name, or the id'] as const;

  add('list', 'list the users')
    .option('--customer <id>', 'only those of one customer')
    .action((options: Common & { customer?: string }) =>
      withStore(loadConfig(options.config), async ({ store }) =>
        print(
          options,
          (await listUsers(store, options.customer)).map((each) => userObject(each)),
        ),
      ),
    );
  add('show', 'show one user with its active tokens and sessions')
    .argument(...login)
    .action((name: string, options: Common) => withStore(loadConfig(options.config), (room) => show(room, name, options)));
  add('set-password', "set a user's password and end the user's sessions")
    .argument(...login)
    .addOption(passwordFileOption())
    .action((name: string, options: Common & { passwordFile?: string }) =>
      change('password', name, options, async (room) => ({ passwordHash: await room.passwords.hash(await readNewPassword(options)) }), {
        needsLogin: true,
      }),
    );
  add('enable-otp', 'turn two-factor authentication on and show its secret once; a secret of before no longer counts')
    .argument(...login)
    .action(enableOtp);
  add('lock', 'refuse logins, tokens and sessions of a user until unlock, whatever a directory says')
    .argument(...login)
    .action((name: string, options: Common) => change('locked', name, options, () => ({ locked: true, lockedBy: 'operator' })));
  add('unlock', 'undo lock')
    .argument(...login)
    .action((name: string, options: Common) => change('unlocked', name, options, () => ({ locked: false, lockedBy: undefined })));
  add('delete', 'delete a user who has no active tokens')
    .argument(...login)
    .action(remove);
  return user;
} // prettier-ignore

async function change(
  reason: string,
  name: string,
  options: Common,
  work: (room: StoreRoom, user: User) => Promise<Partial<User>> | Partial<User>,
  { needsLogin = false } = {},
): Promise<void> {
  const loaded = loadConfig(options.config);
  await withStore(loaded, async (room) => {
    const user = await findUser(room.store, name);
    if (needsLogin) refuseWithoutLogin(loaded, user);
    const changed = await work(room, user);
    await changeUser(room, user, changed);
    recordOperation(room, userFact('user.changed', user, reason));
    if (changed.lockedBy === undefined) warnIfDeclared(loaded, user);
    report(options, userObject(await findUser(room.store, user.id)), `${user.login}: done`);
  });
}

function refuseWithoutLogin({ config }: LoadedConfig, user: User): void {
  if (isGlobalApiTokenUser(user)) throw new CommandFailed(`${user.login} owns legacy keys and can not log in`);
  if (config.directory.http !== null) {
    throw new CommandFailed('passwords and one-time passwords are checked by directory.http, not by Latchkey');
  }
} // prettier-ignore

async function enableOtp(name: string, options: Common): Promise<void> {
  const loaded = loadConfig(options.config);
  await withStore(loaded, async (room) => {
    const user = await findUser(room.store, name);
    refuseWithoutLogin(loaded, user);
    const secret = new Secret({ size: SECRET_BYTES });
    const totp = new TOTP({
      issuer: 'Latchkey',
      label: user.login,
      algorithm: 'SHA1',
      digits: 6,
      period: 30,
      secret,
    });
    const shown = { login: user.login, otp_secret: secret.base32, uri: totp.toString() };
    report(options, shown, renderRecord({ secret: shown.otp_secret, uri: shown.uri }).trimEnd());
    if (process.stdin.isTTY && !options.json) {
      const code = (await ask('Add it to the app, then type the code that it shows: ')).trim();
      if (totp.validate({ token: code, window: 1 }) === null)
        throw new CommandFailed('the code is wrong; nothing was changed');
    }
    await changeUser(room, user, { otpSecret: room.sealer.seal(secret.base32, user.id) });
    recordOperation(room, userFact('user.changed', user, 'one_time_password'));
    warnIfDeclared(loaded, user);
  });
}

async function remove(name: string, options: Common): Promise<void> {
  const loaded = loadConfig(options.config);
  await withStore(loaded, async (room) => {
    const { store } = room;
    const user = await findUser(store, name);
    const basedOn = new Map([[user.id, user.updatedAt]]);
    const refused = await store.change({ removeUsers: [user.id], basedOn }, Date.now());
    if (refused !== undefined) throw new CommandFailed(describeRefusedChange(refused));
    recordOperation(room, userFact('user.deleted', user));
    warnIfDeclared(loaded, user);
    report(options, { deleted: user.id }, `${user.login}: deleted`);
  });
}

async function show({ store }: StoreRoom, name: string, options: Common): Promise<void> {
  const user = await findUser(store, name);
  const now = Date.now();
  const tokens = (await store.listTokensOfUser(user.id)).filter(({ token }) => !isExpired(token, now));
  const sessions = (await store.listSessions(user.id)).filter(({ endsAt }) => endsAt > now);
  const object = { ...userObject(user), active_tokens: tokens.map(({ token }) => token.id) };
  report(
    options,
    { ...object, sessions: sessions.length },
    renderRecord({
      login: user.login,
      id: user.id,
      name: user.name,
      customer: user.customerId,
      role: user.role,
      password: user.passwordHash === null ? 'none' : 'set',
      'two-factor': user.otpSecret === null ? 'off' : 'on',
      locked: user.locked ? 'yes' : 'no',
      created: relativeTime(user.createdAt, now),
      changed: relativeTime(user.updatedAt, now),
      tokens: `${tokens.length} active`,
      sessions: String(sessions.length),
    }).trimEnd(),
  );
}

function userFact(
  event: 'user.changed' | 'user.deleted',
  { id, customerId }: User,
  reason?: string,
): AuditFact {
  const target = { user_id: id, customer_id: customerId };
  return { event, outcome: 'success', target, ...(reason === undefined ? {} : { reason }) };
}

/** A user as `--json` prints it. */
function userObject(user: User) {
  return {
    id: user.id,
    customer_id: user.customerId,
    login: user.login,
    name: user.name,
    role: user.role,
    locked: user.locked,
    has_password: user.passwordHash !== null,
    two_factor: user.otpSecret !== null,
    created_at: formatTime(user.createdAt),
    updated_at: formatTime(user.updatedAt),
  };
}

function print(options: Common, users: readonly ReturnType<typeof userObject>[]): void {
  const rows = users.map((user) => [
    user.login,
    user.id,
    user.name,
    user.role,
    user.customer_id,
    user.two_factor ? 'on' : '',
    user.locked ? 'locked' : '',
  ]);
  const heading = ['LOGIN', 'ID', 'NAME', 'ROLE', 'CUSTOMER', 'TWO-FACTOR', 'STATE'];
  report(options, users, rows.length === 0 ? 'no users' : renderTable(heading, rows).trimEnd());
}
