import { isGlobalApiTokenUser } from '../accounts/declared-records.js';
import { clearThrottle } from '../accounts/login-throttle.js';
import { userChangedEvent, userDeletedEvent } from '../accounts/audit-events.js';
import { loadConfig, type LoadedConfig } from '../config/load.js';
import { isSessionActive } from '../domain/session.js';
import { formatTime } from '../util/time.js';
import { isExpired } from '../domain/token.js';
import type { User } from '../domain/user.js';
import type { OpenedStore } from '../server/stores/open-store.js';
import type { ReportOptions } from './terminal/options.js';
import { CommandFailed, report, reportList, reportRecord } from './terminal/output.js';
import { ask, readNewPassword } from './terminal/password.js';
import {
  changeUser,
  findUser,
  listUsers,
  recordChange,
  userWithId,
  warnIfDeclared,
  withStore,
  writeUser,
} from './with-store.js';

const SECRET_BYTES = 20;

const COLUMNS = ['login', 'id', 'name', 'role', 'customer_id', 'two_factor', 'state'];

export async function list(options: ReportOptions): Promise<void> {
  await withStore(loadConfig(options.config), async ({ store }) => {
    const users = (await listUsers(store.directory)).map(userObject);
    const rows = users.map((user) => ({
      ...user,
      state: user.deletion_pending ? 'deletion pending' : user.locked ? 'locked' : '',
    }));
    await reportList(options, users, rows, COLUMNS, 'no users');
  });
}

export async function setPassword(
  name: string,
  options: ReportOptions & { passwordFile?: string },
): Promise<void> {
  await change('password', name, options, async (loaded, opened, user) => {
    refuseWithoutLogin(loaded, user);
    return { passwordHash: await opened.passwords.hash(await readNewPassword(options)), rehashOf: undefined };
  });
}

export async function lock(name: string, options: ReportOptions): Promise<void> {
  await change('locked', name, options, () => ({ locked: true, lockedBy: 'operator' }));
}

/** Undoes {@link lock}, and resets the failed logins that throttle the next one. */
export async function unlock(name: string, options: ReportOptions): Promise<void> {
  await change('unlocked', name, options, async (_loaded, { store }, { login }) => {
    await clearThrottle(store.loginThrottle, login, Date.now());
    return { locked: false, lockedBy: undefined, deletionPending: undefined };
  });
}

async function change(
  reason: string,
  name: string,
  options: ReportOptions,
  work: (loaded: LoadedConfig, opened: OpenedStore, user: User) => Promise<Partial<User>> | Partial<User>,
): Promise<void> {
  const loaded = loadConfig(options.config);
  await withStore(loaded, async (opened) => {
    const user = await findUser(opened.store.directory, name);
    const changed = await work(loaded, opened, user);
    await recordChange(opened, [userChangedEvent(user, reason)], async () =>
      changeUser(opened, user, changed),
    );
    if (changed.lockedBy === undefined) warnIfDeclared(loaded, user);
    report(options, userObject(await userWithId(opened.store.directory, user.id)), `${user.login}: done`);
  });
}

function refuseWithoutLogin({ config }: LoadedConfig, user: User): void {
  if (isGlobalApiTokenUser(user)) throw new CommandFailed(`${user.login} owns legacy keys and cannot log in`);
  if (user.provider !== undefined)
    throw new CommandFailed(`${user.login} logs in at the identity provider ${user.provider.name} and has no password here`);
  if (config.directory.http !== null) {
    throw new CommandFailed('passwords and one-time passwords are checked by directory.http, not by Latchkey');
  }
} // prettier-ignore

export async function enableOtp(name: string, options: ReportOptions): Promise<void> {
  const loaded = loadConfig(options.config);
  await withStore(loaded, async (opened) => {
    const user = await findUser(opened.store.directory, name);
    refuseWithoutLogin(loaded, user);
    const { Secret, TOTP } = await import('otpauth');
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
    reportRecord(options, shown);
    if (process.stdin.isTTY && !options.json) {
      const code = (await ask('Add it to the authenticator app, then enter the code that it shows: ')).trim();
      if (totp.validate({ token: code, window: 1 }) === null)
        throw new CommandFailed('the code is wrong; nothing was changed');
    }
    const change = { otpSecret: opened.sealer.seal(secret.base32, user.id) };
    const event = userChangedEvent(user, 'one_time_password');
    await recordChange(opened, [event], async () => changeUser(opened, user, change));
    warnIfDeclared(loaded, user);
  });
}

export async function remove(name: string, options: ReportOptions): Promise<void> {
  const loaded = loadConfig(options.config);
  await withStore(loaded, async (opened) => {
    const user = await findUser(opened.store.directory, name);
    await recordChange(opened, [userDeletedEvent(user)], async () =>
      writeUser(opened, user, ({ id }) => ({ removeUsers: [id] })),
    );
    warnIfDeclared(loaded, user);
    report(options, { deleted: user.id }, `${user.login}: deleted`);
  });
}

export async function show(name: string, options: ReportOptions): Promise<void> {
  const loaded = loadConfig(options.config);
  await withStore(loaded, async ({ store }) => {
    const user = await findUser(store.directory, name);
    const now = Date.now();
    const tokens = (await store.tokens.listOfUser(user.id)).filter(({ token }) => !isExpired(token, now));
    const sessions = (await store.sessions.listOfUser(user.id)).filter((session) =>
      isSessionActive(session, session.lastSeenAt, loaded.config.sessions, now),
    );
    reportRecord(options, {
      ...userObject(user),
      active_tokens: tokens.map(({ token }) => token.id),
      sessions: sessions.length,
    });
  });
}

function userObject(user: User) {
  return {
    id: user.id,
    customer_id: user.customerId,
    login: user.login,
    name: user.name,
    role: user.role,
    locked: user.locked,
    deletion_pending: user.deletionPending === true,
    has_password: user.passwordHash !== null,
    two_factor: user.otpSecret !== null,
    ...(user.provider === undefined ? {} : { provider: user.provider.name, subject: user.provider.subject }),
    created_at: formatTime(user.createdAt),
    updated_at: formatTime(user.updatedAt),
  };
}
