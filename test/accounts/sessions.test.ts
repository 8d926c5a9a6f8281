import { join } from 'node:path';
import { setImmediate as turn } from 'node:timers/promises';
import t, { type Test } from 'tap';
import { LastSeen } from '../../src/accounts/last-seen.js';
import { Sessions } from '../../src/accounts/sessions.js';
import type { SessionSubject } from '../../src/domain/credential.js';
import type { Config } from '../../src/config/schema/config.js';
import { openLmdbStore } from '../../src/store/lmdb.js';
import { temporaryFolder } from '../helpers/latchkey.js';
import { until } from '../helpers/until.js';
import { BASE, NOW, user } from '../store/contract/records.js';

const SHORT = { max_per_user: 100, idle_timeout: 60_000, absolute_timeout: 600_000 };
const LONG = { max_per_user: 100, idle_timeout: 3_600_000, absolute_timeout: 7_200_000 };

/** A store, and sessions on it with settings that can change as by a reload. */
async function setUp(t: Test) {
  const store = openLmdbStore(join(temporaryFolder(t), 'store'));
  t.teardown(() => store.maintenance.close());
  await store.directory.change(BASE, NOW);
  const clock = { now: Infinity };
  const maintenance = { ...store.maintenance, clock: async () => clock.now };
  const by = (settings: Config['sessions']) => {
    const lastSeen = new LastSeen(store.usage, 3_600_000, settings.idle_timeout, (error) =>
      t.fail(String(error)),
    );
    t.teardown(() => lastSeen.close());
    return { lastSeen, sessions: new Sessions({ ...store, maintenance }, lastSeen, settings) };
  };
  const begin = async (settings: Config['sessions']) => {
    const started = await by(settings).sessions.start(user('U1'), '127.0.0.1', undefined, NOW);
    if (typeof started === 'string') throw new Error('no session was started');
    return started.secret;
  };
  return { store, clock, by, begin };
}

t.test('a session that timed out stays ended when the idle timeout is raised', async (t) => {
  const { store, by, begin } = await setUp(t);
  const [asked, silent] = [await begin(SHORT), await begin(SHORT)];
  const { sessions } = by(SHORT);
  t.ok(await sessions.find(asked, NOW + 59_999));
  t.equal(await sessions.find(asked, NOW + 60_000), undefined);
  await until(async () => (await store.sessions.listOfUser('U1')).length === 1, 'it is removed');
  const later = by(LONG).sessions;
  t.equal(await later.find(silent, NOW + 60_000), undefined, 'not even one that nobody asked for');
  t.same(await later.ofUser('U1', NOW + 60_000), []);
});

t.test('a clock that is ahead of that of the store refuses a session and ends none', async (t) => {
  const { store, clock, by, begin } = await setUp(t);
  const secret = await begin(SHORT);
  const { sessions } = by(SHORT);
  clock.now = NOW + 59_999;
  t.equal(await sessions.find(secret, NOW + 1_860_000), undefined);
  await turn();
  t.ok(await sessions.find(secret, NOW + 1_000), 'the others accept it');
  clock.now = NOW + 60_000;
  t.equal(await sessions.find(secret, NOW + 60_000), undefined);
  await until(async () => (await store.sessions.listOfUser('U1')).length === 0, 'it is removed');
});

t.test('a use applies the idle timeout in force at that time', async (t) => {
  const { by, begin } = await setUp(t);
  const secret = await begin(SHORT);
  const { sessions, lastSeen } = by(LONG);
  const found = await sessions.find(secret, NOW + 50_000);
  if (found === undefined) throw new Error('no session');
  const subject: SessionSubject = { credential: 'session', user: found.owner, session: found.session };
  lastSeen.note(subject, '127.0.0.1', undefined, NOW + 400_000);
  t.ok(await sessions.find(secret, NOW + 550_000), 'before it is written');
  await lastSeen.flush();
  t.ok(await by(LONG).sessions.find(secret, NOW + 550_000), 'and after');
  t.equal(await by(SHORT).sessions.find(secret, NOW + 460_000), undefined, 'a shorter one applies at once');
});

t.test('a shorter absolute timeout applies to existing sessions, a longer one does not', async (t) => {
  const { by, begin } = await setUp(t);
  const active = { ...LONG, absolute_timeout: 100_000 };
  t.equal(await by(active).sessions.find(await begin(LONG), NOW + 100_000), undefined);
  t.ok(await by(active).sessions.find(await begin(LONG), NOW + 99_999));
  const short = await begin({ ...LONG, absolute_timeout: 100_000 });
  t.equal(await by(LONG).sessions.find(short, NOW + 100_000), undefined);
});
