import { sessionEvent } from '../accounts/sessions.js';
import { loadConfig } from '../config/load.js';
import { isSessionActive, type Session } from '../domain/session.js';
import { formatTime } from '../util/time.js';
import type { User } from '../domain/user.js';
import type { Store } from '../store/core/store.js';
import type { ReportOptions } from './terminal/options.js';
import { CommandFailed, report, reportList, WrongUsage } from './terminal/output.js';
import { findUser, listUsers, recordChange, withStore } from './with-store.js';

interface SessionOptions extends ReportOptions {
  readonly user?: string;
}

interface Owned {
  readonly session: Session;
  readonly user: User;
}

async function sessionsOf(store: Store, options: SessionOptions): Promise<Owned[]> {
  const users =
    options.user === undefined
      ? await listUsers(store.directory)
      : [await findUser(store.directory, options.user)];
  const found: Owned[] = [];
  for (const user of users) {
    for (const session of await store.sessions.listOfUser(user.id)) found.push({ session, user });
  }
  return found.toSorted((a, b) => b.session.lastSeenAt - a.session.lastSeenAt);
}

const COLUMNS = ['id', 'login', 'provider', 'created_at', 'last_seen_at', 'ends_at', 'ip', 'user_agent'];

export async function list(options: SessionOptions): Promise<void> {
  const loaded = loadConfig(options.config);
  await withStore(loaded, async ({ store }) => {
    const now = Date.now();
    const found = (await sessionsOf(store, options)).filter(({ session }) =>
      isSessionActive(session, session.lastSeenAt, loaded.config.sessions, now),
    );
    const objects = found.map(sessionObject);
    const rows = objects.map((each) => ({ provider: 'password', ...each }));
    await reportList(options, objects, rows, COLUMNS, 'no sessions');
  });
}

function sessionObject({ session, user }: Owned) {
  return {
    id: session.id,
    user_id: user.id,
    login: user.login,
    customer_id: user.customerId,
    created_at: formatTime(session.createdAt),
    last_seen_at: formatTime(session.lastSeenAt),
    ends_at: formatTime(session.endsAt),
    ip: session.ip,
    user_agent: session.userAgent,
    ...(session.provider === undefined ? {} : { provider: session.provider.name }),
  };
}

export async function revoke(ids: readonly string[], options: SessionOptions): Promise<void> {
  if ((ids.length === 0) === (options.user === undefined)) {
    throw new WrongUsage('session revoke: pass session ids, or --user LOGIN for every session of a user');
  }
  await withStore(loadConfig(options.config), async (opened) => {
    const { store } = opened;
    const all = await sessionsOf(store, options);
    const chosen = options.user === undefined ? all.filter(({ session }) => ids.includes(session.id)) : all;
    const missing = ids.filter((id) => !chosen.some(({ session }) => session.id === id));
    if (missing.length > 0)
      throw new CommandFailed(`there is no session ${missing.join(', ')}; nothing was ended`);
    for (const { session, user } of chosen) {
      const event = sessionEvent('session.ended', session, user.customerId, 'operator');
      // It may have ended since it was read.
      const end = async () => store.sessions.end(session.digest);
      await recordChange(opened, [event], end, (hasEnded) => hasEnded);
    }
    const ended = chosen.map(({ session }) => session.id);
    report(options, { revoked: ended }, ended.map((id) => `${id}: ended`).join('\n') || 'no sessions');
  });
}
