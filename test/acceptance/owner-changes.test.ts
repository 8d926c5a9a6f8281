import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { hash } from '@node-rs/argon2';
import t, { type Test } from 'tap';
import type { User } from '../../src/domain/user.js';
import { openLmdbStore } from '../../src/store/lmdb.js';
import { openRedisStore } from '../../src/store/redis.js';
import type { Store } from '../../src/store/core/store.js';
import { PASSWORD } from '../helpers/fixture.js';
import { send, startUpstream } from '../helpers/http.js';
import { start, temporaryFolder, workerOf, writeConfig } from '../helpers/latchkey.js';
import { nightly } from '../helpers/nightly.js';
import { redisSettings, startRedis } from '../helpers/redis.js';

const passwordHash = await hash(PASSWORD, { memoryCost: 1024, timeCost: 1, parallelism: 1 });

type Change = (store: Store, user: User) => Promise<unknown>;
const write =
  (more: Partial<User>): Change =>
  (store, user) =>
    store.directory.change({ users: [{ ...user, ...more, updatedAt: user.updatedAt + 1 }] }, Date.now());

const CHANGES: readonly [string, 'login' | 'tokens' | 'sudo', number, Change][] = [
  ['password', 'login', 401, write({ passwordHash: '$argon2id$v=19$m=1024,t=1,p=1$c2FsdHNhbHQ$aGFzaGhhc2g' })],
  ['second factor', 'tokens', 400, write({ otpSecret: 'sealed' })],
  ['lock', 'login', 401, write({ locked: true, lockedBy: 'operator' })],
  ['customer', 'tokens', 400, write({ customerId: 'C2' })],
  ['password', 'sudo', 403, write({ passwordHash: null })],
  ['re-creation', 'login', 401, async (store, user) => {
    await store.directory.change({ removeUsers: [user.id] }, Date.now());
    const now = Date.now();
    await store.directory.change({ users: [{ ...user, createdAt: now, updatedAt: now }] }, now);
  }],
  ['deletion', 'tokens', 400, (store, user) => store.directory.change({ removeUsers: [user.id] }, Date.now())],
]; // prettier-ignore

async function race(t: Test, config: object, open: () => Promise<Store> | Store): Promise<void> {
  const upstream = await startUpstream(t);
  const user = (id: string) => ({ id, customer_id: 'C1', login: `${id}@example.com`, role: 'superuser', password_hash: passwordHash });
  const directory = {
    customers: [{ id: 'C1', name: 'One' }, { id: 'C2', name: 'Two' }],
    users: [...CHANGES.map((_, i) => user(`U${i}`)), user('calm')],
  };
  const file = writeConfig(temporaryFolder(t), { upstream: upstream.url, interface: { account_endpoints: true }, ...config }, directory);
  const { url, pid } = await start(t, file, { isolated: true });
  const store = await open();
  t.teardown(async () => store.maintenance.close());
  const post = (path: string, id: string, headers: Record<string, string> = {}) => {
    const login = `${id}@example.com`;
    return send(url, path, { body: new URLSearchParams({ user: login, username: login, password: PASSWORD }), headers });
  };
  for (const path of ['/login', '/tokens', '/sudo']) t.equal((await post(path, 'calm')).status, 200, `${path} without a change`);
  const hashing = workerOf(pid);
  for (const [i, [name, entrance, status, change]] of CHANGES.entries()) {
    const id = `U${i}`;
    const session: Record<string, string> = {};
    if (entrance === 'sudo') {
      const [cookie = ''] = (await post('/login', id)).headers['set-cookie'] ?? [];
      session['Cookie'] = cookie.split(';', 1)[0] ?? '';
    }
    // The password check lasts as long as the hashing process is stopped.
    process.kill(hashing, 'SIGSTOP');
    const underWay = post(`/${entrance}`, id, session);
    await sleep(500);
    const before = await store.directory.getUser(id);
    if (before === undefined) throw new Error(`no ${id}`);
    await change(store, before);
    process.kill(hashing, 'SIGCONT');
    const reply = await underWay;
    t.match(reply, { status, json: { code: 'invalid_grant' } }, `${entrance}: ${name}`);
    t.equal(reply.headers['set-cookie'], undefined, name);
    t.same([await store.sessions.listOfUser(id), await store.tokens.listOfUser(id)], [[], []], `${name}: nothing was created`);
  }
} // prettier-ignore

t.test(
  'creates no session or token if the user changes during the check: embedded store',
  nightly,
  async (t) => {
    const path = join(temporaryFolder(t), 'store');
    await race(t, { store: { type: 'lmdb', path } }, () => openLmdbStore(path));
  },
);

t.test('creates no session or token if the user changes during the check: Redis', async (t) => {
  const { url } = await startRedis(t);
  await race(t, { store: { type: 'redis', url } }, () => openRedisStore(redisSettings({ url })));
});
