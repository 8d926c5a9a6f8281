import { connect } from 'node:net';
import t, { type Test } from 'tap';
import { openRedisStore } from '../../src/store/redis.js';
import { StoreUnavailable } from '../../src/store/faults.js';
import { serveHttp } from '../helpers/http.js';
import { PASSWORD } from '../helpers/fixture.js';
import { type InProcess, startInProcess } from '../helpers/in-process.js';
import { redisSettings, startRedis } from '../helpers/redis.js';
import { until } from '../helpers/until.js';

/* A failed login asks Redis for the same, whether somebody has the login name or not. */

const redis = await startRedis(t);
const { port, url } = redis;
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

/**
 * Returns what Redis reports of each command that it runs, a line each. ioredis would take a line
 * that arrives together with the reply to `MONITOR` for the reply to another command.
 */
async function monitor(t: Test): Promise<readonly string[]> {
  const lines: string[] = [];
  const socket = connect(port, '127.0.0.1', () => socket.write('MONITOR\r\n'));
  t.teardown(() => socket.destroy());
  let rest = '';
  socket.setEncoding('utf8').on('data', (data: string) => {
    const parts = `${rest}${data}`.split('\r\n');
    rest = parts.pop() ?? '';
    lines.push(...parts);
  });
  await until(() => lines.includes('+OK'), 'the monitor begins');
  return lines;
}

/** Waits until the monitor has reported everything up to now: it is a connection of its own. */
async function catchUp(lines: readonly string[]): Promise<void> {
  const mark = `mark-${++number}`;
  redis.cli('ECHO', mark);
  await until(() => lines.some((line) => line.endsWith(`"${mark}"`)), 'the monitor has caught up');
}

/** Calls `work`, and returns the scripts that Redis ran meanwhile, in order. */
async function scriptsOf(lines: readonly string[], work: () => Promise<unknown>): Promise<string[]> {
  await catchUp(lines);
  const start = lines.length;
  await work();
  await catchUp(lines);
  return lines.slice(start).flatMap((line) => {
    const [, source, sha] = /^\+[\d.]+ \[\d+ (\S+)\] "eval\w*" "([^"]*)"/i.exec(line) ?? [];
    return sha === undefined || source === 'lua' ? [] : [sha.slice(0, 40)];
  });
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
  const lines = await monitor(t);
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
  const known = await scriptsOf(lines, tried(KNOWN));
  const unknown = await scriptsOf(lines, tried(UNKNOWN));
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
