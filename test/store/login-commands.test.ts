import { Redis } from 'ioredis';
import t, { type Test } from 'tap';
import { openRedisStore } from '../../src/store/redis.js';
import { StoreUnavailable } from '../../src/store/faults.js';
import { serveHttp } from '../helpers/http.js';
import { PASSWORD } from '../helpers/fixture.js';
import { type InProcess, startInProcess } from '../helpers/in-process.js';
import { redisSettings, startRedis } from '../helpers/redis.js';

/* A failed login asks Redis for the same, whether somebody has the login name or not. */

const { url } = await startRedis(t);
const [KNOWN, UNKNOWN] = ['user@example.com', 'nobody@example.com'];
const SUBSCRIPTION = [{ endpoint: 'e', events: ['login.locked'] }] as const;
let number = 0;

/** The settings of a new store in Redis. */
async function newStore(): Promise<object> {
  const prefix = `test-${++number}:`;
  const store = await openRedisStore(redisSettings({ url, prefix }));
  await store.maintenance.initialize();
  await store.maintenance.close();
  return { store: { type: 'redis', url, prefix, sealing_key: '0b'.repeat(32) }, login: { max_failures: 2 } };
}

/** Waits until the monitor has reported everything up to now: it is a connection of its own. */
async function catchUp(monitor: Redis, connection: Redis): Promise<void> {
  const mark = `mark-${++number}`;
  const reported = new Promise<void>((done) => {
    const note = (_time: string, [, text]: string[]) => {
      if (text !== mark) return;
      monitor.off('monitor', note);
      done();
    };
    monitor.on('monitor', note);
  });
  await connection.echo(mark);
  await reported;
}

/** Calls `work`, and returns the scripts that Redis ran meanwhile, in order. */
async function scriptsOf(monitor: Redis, connection: Redis, work: () => Promise<unknown>): Promise<string[]> {
  await catchUp(monitor, connection);
  const scripts: string[] = [];
  const note = (_time: string, [command = '', sha = '']: string[], source: string) => {
    if (source !== 'lua' && /^eval/i.test(command)) scripts.push(sha.slice(0, 40));
  };
  monitor.on('monitor', note);
  await work();
  await catchUp(monitor, connection);
  monitor.off('monitor', note);
  return scripts;
}

async function compare(
  t: Test,
  config: object,
  subscribes: boolean,
  prepare: (server: InProcess) => Promise<void> = async () => undefined,
): Promise<void> {
  const server = await startInProcess(t, { ...(await newStore()), ...config });
  const { request, opened } = server;
  await prepare(server);
  if (subscribes) opened.store.webhooks.subscribe(SUBSCRIPTION);
  const connection = new Redis(url);
  const monitor = await connection.monitor();
  t.teardown(() => [monitor.disconnect(), connection.disconnect()]);
  const tried = (user: string) => async () => {
    const body = new URLSearchParams({ user, password: 'wrong' });
    t.match(await request('/login', { method: 'POST', body }), {
      status: 401,
      json: { code: 'invalid_grant' },
    });
  };
  // The first run of a script sends its text.
  for (let i = 0; i < 2; i++) await tried('first@example.com')();
  for (const user of [KNOWN, UNKNOWN]) await tried(user)();
  const known = await scriptsOf(monitor, connection, tried(KNOWN));
  const unknown = await scriptsOf(monitor, connection, tried(UNKNOWN));
  t.ok(known.length > 4, 'the look-ups and the counts');
  t.strictSame(known, unknown, `${known.length} scripts`);
}

for (const subscribes of [false, true])
  t.test(`stored accounts, ${subscribes ? 'with' : 'without'} webhooks`, async (t) =>
    compare(t, {}, subscribes),
  );

t.test('accounts of an external source', async (t) => {
  const account = { id: 'user', customer_id: 'C1', name: 'a', role: 'user' };
  const source = await serveHttp(t, (req, res) => {
    req.on('data', (body: Buffer) => {
      if (body.includes('wrong')) res.writeHead(401).end('{}');
      else res.end(JSON.stringify(account));
    });
  });
  await compare(t, { directory: { http: { url: source.url } } }, true, async ({ request }) => {
    const body = new URLSearchParams({ user: KNOWN, password: PASSWORD });
    t.equal((await request('/login', { method: 'POST', body })).status, 200);
  });
});

t.test('an event that cannot be queued changes no response', async (t) => {
  const failing = async () => Promise.reject(new StoreUnavailable('no room'));
  const { request, opened } = await startInProcess(t, { login: { max_failures: 1 } });
  Object.assign(opened.store.webhooks, { queueLocked: failing });
  const bytes = [];
  for (const user of [KNOWN, UNKNOWN]) {
    const body = new URLSearchParams({ user, password: 'wrong' });
    const { status, text } = await request('/login', { method: 'POST', body });
    bytes.push([status, text]);
  }
  t.strictSame(bytes[0], bytes[1]);
  t.equal(bytes[0]?.[0], 401);
});
