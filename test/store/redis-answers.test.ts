import { Redis } from 'ioredis';
import t, { type Test } from 'tap';
import { RedisClient } from '../../src/store/redis/client.js';
import { Sentinels } from '../../src/store/redis/electors.js';
import { MasterSession } from '../../src/store/redis/session.js';
import { keyOf, LOGOUT, OTP_STEP } from '../../src/store/core/kinds.js';
import { RedisKv } from '../../src/store/redis/kv.js';
import { scriptsFor } from '../../src/store/redis/scripts.js';
import { openRedisStore, type RedisStore } from '../../src/store/redis.js';
import { OutcomeUnknown, StoreUnavailable } from '../../src/store/faults.js';
import { serveTcp } from '../helpers/http.js';
import { startProxy } from '../helpers/proxy.js';
import { redisSettings, type RedisServer, startRedis } from '../helpers/redis.js';
import { until } from '../helpers/until.js';
import { BASE, FAILURES, NOW, session, token, user } from './contract/records.js';

const NO_LIMITS = { active: null, stored: null };
const wait = (ms: number) => new Promise((done) => setTimeout(done, ms));
/** In milliseconds. A change is looked up after 200 ms with this timeout. */
const COMMAND_TIMEOUT = 50;
/** For what is read before: a busy machine may take long. */
const LONG_TIMEOUT = 1_000;

/** Changes, the answer to each when it is made, and a check whether it was made. */
const CHANGES = {
  change: {
    make: (store: RedisStore) =>
      store.directory.change({ users: [user('U1', { role: 'other', updatedAt: NOW + 1 })] }, NOW),
    answer: undefined,
    made: async (store: RedisStore) => (await store.directory.getUser('U1'))?.role === 'other',
  },
  createToken: {
    make: (store: RedisStore) => store.tokens.create(token('T2'), user('U1'), NO_LIMITS, NOW),
    answer: 'created',
    made: async (store: RedisStore) => (await store.tokens.get('T2')) !== undefined,
  },
  revokeTokens: {
    make: (store: RedisStore) => store.tokens.revoke(['T1']),
    answer: { missing: [], revoked: ['T1'] },
    made: async (store: RedisStore) => (await store.tokens.get('T1')) === undefined,
  },
  createSession: {
    make: (store: RedisStore) => store.sessions.create(session('D2'), user('U1'), null),
    answer: [],
    made: async (store: RedisStore) => (await store.sessions.find('D2')) !== undefined,
  },
  endSession: {
    make: (store: RedisStore) => store.sessions.end('D1'),
    answer: true,
    made: async (store: RedisStore) => (await store.sessions.find('D1')) === undefined,
  },
  noteLogouts: {
    make: (store: RedisStore) =>
      store.sessions.noteLogouts([{ name: 'L', issuedAt: NOW, receivedAt: NOW }], NOW + 60_000),
    answer: undefined,
    made: async ({ client }: RedisStore) =>
      (await (await client.session()).commands.exists(client.key(keyOf(LOGOUT, 'L')))) === 1,
  },
  takeOtpStep: {
    make: (store: RedisStore) => store.usage.takeOtpStep('U1', 7),
    answer: true,
    made: async (store: RedisStore) => (await store.usage.getOtpStep('U1')) === 7,
  },
} as const;

let number = 0;

/**
 * Starts Redis with the scripts loaded. An unknown script is not run by its digest, and its error
 * would be the lost answer.
 */
async function startRedisWithScripts(t: Test) {
  const redis = await startRedis(t);
  for (const { text } of Object.values(scriptsFor(0))) redis.cli('SCRIPT', 'LOAD', text);
  return redis;
}

/** Opens a store through a proxy, and the same store directly. */
async function setUp(t: Test, redis: RedisServer, timeout = COMMAND_TIMEOUT) {
  const proxy = await startProxy(t, redis.port);
  const prefix = `answers-${++number}:`;
  const behind = await openRedisStore(redisSettings({ url: proxy.url, prefix, command_timeout: timeout }));
  const direct = await openRedisStore(redisSettings({ url: redis.url, prefix }));
  t.teardown(() => Promise.all([behind.maintenance.close(), direct.maintenance.close()]));
  await direct.maintenance.initialize();
  await direct.directory.change(BASE, NOW);
  await direct.tokens.create(token('T1'), user('U1'), NO_LIMITS, NOW);
  await direct.sessions.create(session('D1'), user('U1'), null);
  return { proxy, behind, direct, prefix };
} // prettier-ignore

/** Calls back just before the next change is sent: what it is based on has been read. */
function atCommit({ client }: RedisStore, act: () => void): void {
  const script = client.script.bind(client);
  client.script = async (name, ...rest) => {
    if (name === 'commit') act();
    return script(name, ...rest);
  };
}

t.test('a change whose answer is lost', async (t) => {
  const redis = await startRedisWithScripts(t);
  // The cases wait for seconds, independently of each other.
  t.jobs = Object.keys(CHANGES).length;
  for (const [name, { make, answer, made }] of Object.entries(CHANGES)) t.test(name, async (t) => {
    const lost = await setUp(t, redis, LONG_TIMEOUT);
    // A machine that stalls may close the connection before.
    await until(async () => lost.behind.maintenance.probe().then(() => true, () => false), 'it is connected');
    atCommit(lost.behind, () => lost.proxy.mute());
    const answered = make(lost.behind);
    await wait(400);
    lost.proxy.open();
    t.same(await answered, answer, 'it was made, and the answer is the usual one');
    t.not(await made(lost.direct), false);

    const undone = await setUp(t, redis, LONG_TIMEOUT);
    atCommit(undone.behind, () => undone.proxy.quiet());
    const refused = make(undone.behind).catch((error: unknown) => error);
    await wait(400);
    undone.proxy.open();
    const error = await refused;
    t.ok(error instanceof StoreUnavailable && !(error instanceof OutcomeUnknown), 'it did not arrive, and is reported as not made');
    t.not(await made(undone.direct), true);

    const unknown = await setUp(t, redis, LONG_TIMEOUT);
    atCommit(unknown.behind, () => unknown.proxy.mute());
    const message = await make(unknown.behind).catch((error: unknown) => error);
    t.ok(message instanceof OutcomeUnknown, 'the outcome cannot be looked up: it is reported as unknown');
    t.match((message as Error).message, /^the change is not confirmed; it may have been applied/);
    t.not(await made(unknown.direct), false);
  });
}); // prettier-ignore

/** Number of concurrent readers. */
const READERS = 4;

t.test('connections closed by Redis fail no read and leave no change unknown', async (t) => {
  const redis = await startRedis(t);
  const store = await openRedisStore(redisSettings({ url: redis.url }));
  t.teardown(() => store.maintenance.close());
  await store.maintenance.initialize();
  await store.directory.change(BASE, NOW);
  const cancellation = new AbortController();
  const wrong: unknown[] = [];
  const [reads, changes] = [[0], [0]] as [[number], [number]];
  const repeat = async (count: [number], ask: (nth: number) => Promise<boolean>) => {
    while (!cancellation.signal.aborted) {
      const right = await ask(count[0]++).catch((error: unknown) => error);
      if (right !== true) wrong.push(right);
      await wait(0);
    }
  };
  const asking = [
    ...Array.from({ length: READERS }, () => repeat(reads, async () => (await store.directory.getUser('U1'))?.id === 'U1')),
    repeat(changes, async (nth) => {
      const answer = await store
        .tokens.create(token(`K${nth}`), user('U1'), NO_LIMITS, NOW)
        .catch((error: unknown) => (error instanceof StoreUnavailable ? 'not made' : error));
      return ((await store.tokens.get(`K${nth}`)) === undefined ? 'not made' : 'created') === answer;
    }),
  ];
  const killer = new Redis(redis.port);
  for (let i = 0; i < 30; i++) {
    await killer.call('CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes');
    // Waits until each connection was used before it is closed, however long reconnecting takes.
    for (const before = reads[0]; reads[0] < before + 3 * READERS && wrong.length === 0; ) await wait(1);
  }
  cancellation.abort();
  await Promise.all(asking);
  killer.disconnect();
  t.same(wrong, []);
  t.ok(reads[0] > 100 && changes[0] >= 30, `${reads[0]} reads, ${changes[0]} changes`);
}); // prettier-ignore

t.test('a read does not fail because this process stood still', async (t) => {
  const redis = await startRedisWithScripts(t);
  const { behind } = await setUp(t, redis);
  const readWhileStill = async (stillMs: number) => {
    const found = Promise.resolve(behind.tokens.get('T1'));
    // Sends the command; its reply arrives while nothing reads it, and its timeout fires first.
    await new Promise((done) => process.nextTick(done));
    const until = performance.now() + stillMs;
    while (performance.now() < until);
    const answer = await found.catch((error: unknown) => error);
    return { answer, waited: performance.now() - until };
  };
  for (const stillMs of [100, 200, 400]) {
    let { answer, waited } = await readWhileStill(stillMs);
    // A machine that is too busy to answer may also let pass the time that a read got again, or that
    // of the master's confirmation.
    const isBusy = () =>
      waited >= COMMAND_TIMEOUT || /the master was not confirmed in time/.test(String(answer));
    for (let tries = 0; tries < 5 && answer instanceof StoreUnavailable && isBusy(); tries++)
      ({ answer, waited } = await readWhileStill(stillMs));
    t.match(answer, { token: { id: 'T1' } }, `${stillMs} ms`);
  }
});

t.test('a change is made although Redis refuses to wait for replicas, as when it becomes one itself', async (t) => {
  const redis = await startRedis(t);
  const direct = await openRedisStore(redisSettings({ url: redis.url }));
  await direct.maintenance.initialize();
  await direct.directory.change(BASE, NOW);
  const allow = (wait: string) => redis.cli('ACL', 'SETUSER', 'sidecar', 'on', '>password', '~*', '&*', '+@all', wait);
  allow('-wait');
  const acknowledge = { replicas: 0, timeout: 1_000 };
  const store = await openRedisStore(redisSettings({ url: redis.url, username: 'sidecar', password: 'password', acknowledge }));
  t.teardown(() => Promise.all([store.maintenance.close(), direct.maintenance.close()]));
  const created = store.tokens.create(token('T1'), user('U1'), NO_LIMITS, NOW);
  await until(async () => (await direct.tokens.get('T1')) !== undefined, 'the token is there');
  await wait(150);
  allow('+wait');
  t.equal(await created, 'created');
}); // prettier-ignore

t.test('an attempt is settled once although its settlement is sent again', async (t) => {
  const redis = await startRedisWithScripts(t);
  const { proxy, behind, direct } = await setUp(t, redis, 5_000);
  const limits = [FAILURES];
  for (let i = 0; i < 3; i++) await direct.loginThrottle.reserve(limits, NOW);
  atCommit(behind, () => proxy.mute());
  const settled = behind.loginThrottle.settle({ clear: [], release: [FAILURES.key] }, NOW);
  await until(async () => (await direct.loginThrottle.blockedUntil(limits, NOW)) === 0, 'it is settled');
  proxy.open();
  await settled;
  t.equal(await direct.loginThrottle.reserve(limits, NOW), 0, 'one attempt is free again');
  t.not(await direct.loginThrottle.reserve(limits, NOW), 0, 'but not two');
});

t.test('an attempt that is sent again because its reply was lost counts once', async (t) => {
  const redis = await startRedisWithScripts(t);
  const { proxy, behind, direct } = await setUp(t, redis, 5_000);
  const once = { ...FAILURES, free: 1, stopAt: 1, forgetFrom: 'first' } as const;
  atCommit(behind, () => proxy.mute());
  const first = behind.loginThrottle.reserve([once], NOW);
  await until(async () => (await direct.loginThrottle.blockedUntil([once], NOW)) > 0, 'it is counted');
  proxy.open();
  t.equal(await first, 0, 'the answer is that of the first time');
  t.not(await direct.loginThrottle.reserve([once], NOW), 0, 'nobody else gets it');
});

t.test('a read of a server that is silent fails after its timeout, once', async (t) => {
  const redis = await startRedisWithScripts(t);
  const { proxy, behind } = await setUp(t, redis);
  proxy.quiet();
  const startedAt = performance.now();
  await t.rejects(async () => behind.tokens.get('T1'), StoreUnavailable);
  const took = performance.now() - startedAt;
  t.ok(took >= COMMAND_TIMEOUT && took < 10 * COMMAND_TIMEOUT, `${took.toFixed()} ms`);
  proxy.open();
});

t.test('the reported outcome of a change is true when Redis pauses', async (t) => {
  const redis = await startRedisWithScripts(t);
  for (const stopped of [100, 400, 2_000])
    for (const cut of [false, true]) {
      const { proxy, behind, direct } = await setUp(t, redis);
      redis.signal('SIGSTOP');
      const revoked = behind.tokens.revoke(['T1']).then(
        () => 'made',
        (error: unknown) => (error instanceof OutcomeUnknown ? 'unknown' : 'not made'),
      );
      await wait(50);
      if (cut) proxy.cut();
      await wait(stopped - 50);
      redis.signal('SIGCONT');
      const said = await revoked;
      await wait(100);
      const gone = (await direct.tokens.get('T1')) === undefined;
      t.equal(said, gone ? 'made' : 'not made', `${cut ? 'cut' : 'held'} for ${stopped} ms`);
    }
});

t.test('an abandoned change is not made when it arrives late, and a repeated one is made once', async (t) => {
  const { url, cli } = await startRedis(t);
  const client = new RedisClient(redisSettings({ url }));
  t.teardown(() => client.close());
  await client.connected();
  await client.command((redis) => redis.set(client.key('meta'), '{"format":1}'));
  /** Runs the script and returns the keys of its marks. */
  const mark = async () => {
    await new RedisKv(client).commit({ expect: new Map(), put: new Map(), link: new Map([['a', new Map([['b', 0]])]]), tell: [], isReserved: false, none: [] });
    return cli('--scan', '--pattern', '*done:*');
  };
  const key = await mark();
  t.match(key, /^\{latchkey:\}done:\w{22}$/, 'one mark');
  t.ok(Number(cli('PTTL', key)) > 60_000, 'with an expiry');
  /** Writes a step based on a revision. */
  const take = async (step: number, revision: string, done: string) => {
    const key = keyOf(OTP_STEP, 'U1');
    const [expect, put] = [JSON.stringify([key, revision]), JSON.stringify([key, '', `{"step":${step}}`])];
    const keys = [client.key('meta'), client.key(`done:${done}`)];
    return client.held!.commands.eval(scriptsFor(0).commit.text, 2, ...keys, client.prefix, '0', expect, put, '[]', '[]');
  };
  const first = await take(5, '', 'x');
  t.match(first, /^\d+$/);
  t.equal(await take(5, '', 'x'), first, 'the same change again: the same answer');
  t.equal(await take(6, '', 'y'), '', 'another change, based on what was there before');
  cli('SET', '{latchkey:}done:z', 'given up');
  await t.rejects(take(9, String(first), 'z'), /given up/);
  t.equal(cli('GET', '{latchkey:}otp_step:U1'), `${String(first)}||{"step":5}`);
}); // prettier-ignore

t.test('disconnects from a server that stops answering, and returns once it answers, whatever the clock says', async (t) => {
  const redis = await startRedis(t);
  const store = await openRedisStore(redisSettings({ url: redis.url, command_timeout: COMMAND_TIMEOUT }));
  t.teardown(() => store.maintenance.close());
  await store.maintenance.initialize();
  const first = await store.client.session();
  redis.cli('CLIENT', 'PAUSE', '700');
  const reads = Array.from({ length: 5 }, async () => store.directory.getUser('U1'));
  t.equal((await Promise.allSettled(reads)).filter(({ status }) => status === 'rejected').length, 5);
  t.equal(await first.lost, '5 requests in a row got no response');
  await wait(COMMAND_TIMEOUT);
  const askedAt = performance.now();
  await t.rejects(async () => store.directory.getUser('U1'), StoreUnavailable);
  t.ok(performance.now() - askedAt < COMMAND_TIMEOUT / 2, 'nobody queues for a timeout');
  const clock = Date.now;
  Date.now = () => clock() - 3_600_000;
  t.teardown(() => (Date.now = clock));
  await until(async () => store.maintenance.probe().then(() => true, () => false), 'it answers again', 5_000);
  t.equal((await store.client.session()).isHeld(), true);
}); // prettier-ignore

t.test('does not wait for a server that is silently cut off once another is the master', async (t) => {
  const redis = await startRedis(t);
  const proxy = await startProxy(t, redis.port);
  proxy.quiet();
  const [host = '', port = ''] = new URL(proxy.url).host.split(':');
  const node = { host, port: Number(port) };
  const master = { node, epoch: 0 };
  const electors = { findMaster: async () => master, close: () => undefined };
  const over = new AbortController();
  const settings = redisSettings({ url: proxy.url });
  const opening = MasterSession.open(master, settings, electors, over.signal).then(() => 'open', () => 'given up');
  await wait(200);
  const abortedAt = performance.now();
  over.abort();
  t.equal(await opening, 'given up');
  const took = performance.now() - abortedAt;
  t.ok(took < 1_000, `${took} ms`);
}); // prettier-ignore

t.test('resubscribes to a sentinel that is lost in the middle of a subscription', async (t) => {
  let subscriptions = 0;
  const { url: serverUrl } = await serveTcp(t, (socket) => {
    socket.on('data', (bytes) => {
      if (!/subscribe/i.test(bytes.toString())) return;
      subscriptions += 1;
      socket.write('*3\r\n$9\r\nsubscribe\r\n$14\r\n+switch-master\r\n:1\r\n');
      if (subscriptions > 1) socket.destroy();
      else setTimeout(() => socket.destroy(), 50);
    });
  });
  const { host } = new URL(serverUrl);
  const sentinels = new Sentinels(
    { master: 'm', nodes: [host], username: null, password: null },
    redisSettings({}),
    () => undefined,
  );
  t.teardown(() => {
    sentinels.close();
  });
  // An unhandled rejection fails the test.
  await until(() => subscriptions > 3, 'it subscribed each time');
  t.pass();
});

t.test('a change that fails is unknown once a part of it was made', async (t) => {
  const { url, cli } = await startRedis(t);
  const store = await openRedisStore(redisSettings({ url }));
  t.teardown(() => store.maintenance.close());
  await store.maintenance.initialize();
  await store.directory.change(BASE, NOW);
  const create = async (id: string) =>
    store.tokens.create(token(id, { expiresAt: NOW + 1 }), user('U1'), NO_LIMITS, NOW);
  const plain = async (id: string, message: RegExp) => {
    const error = (await create(id).catch((fault: unknown) => fault)) as Error;
    t.match(error, message);
    t.notOk(error instanceof OutcomeUnknown, 'nothing was made');
    t.equal(await store.tokens.get(id), undefined);
  };
  t.equal(await create('T1'), 'created');
  cli('ACL', 'SETUSER', 'default', '-set');
  await plain('T2', /lacks a permission/);
  cli('ACL', 'SETUSER', 'default', '+set');
  cli('CONFIG', 'SET', 'maxmemory', '1');
  await plain('T2', /OOM/);
  cli('CONFIG', 'SET', 'maxmemory', '0');

  cli('ACL', 'SETUSER', 'default', '-zadd');
  await t.rejects(create('T2'), { name: 'OutcomeUnknown' });
  t.ok(await store.tokens.get('T2'), 'a part was made');
  await t.rejects(create('T3'), { message: /in the middle.*lacks a permission/ });
  cli('ACL', 'SETUSER', 'default', '+zadd');
  cli('DEL', '{latchkey:}index:expiry');
  cli('LPUSH', '{latchkey:}index:expiry', 'x');
  await t.rejects(create('T3'), {
    name: 'OutcomeUnknown',
    message: /it failed in the middle, at the key \{latchkey:\}index:expiry: WRONGTYPE/,
  });
  cli('SET', '{latchkey:}user:U1', 'garbage');
  await plain('T4', /a user record is damaged \(user U1; "latchkey store remove user U1" removes it\)/);
});

t.test('a read that Redis refuses is not taken for damage', async (t) => {
  const { url, cli } = await startRedis(t);
  const store = await openRedisStore(redisSettings({ url }));
  t.teardown(() => store.maintenance.close());
  await store.maintenance.initialize();
  await store.directory.change(BASE, NOW);
  await store.tokens.create(token('T1', { expiresAt: NOW + 1 }), user('U1'), NO_LIMITS, NOW);
  cli('ACL', 'SETUSER', 'default', '-get');
  const reads: Record<string, () => unknown> = {
    find: async () => store.tokens.find('digest-T1'),
    'a token': async () => store.tokens.get('T1'),
    'a list': async () => store.directory.listCustomers(),
    'a login': async () => store.directory.getUserByLogin('U1'),
    cleaning: async () => store.maintenance.removeExpired(NOW + 2, NOW + 2, 10),
  };
  for (const [name, read] of Object.entries(reads))
    await t.rejects(async () => read(), { name: 'StoreUnavailable', message: /lacks a permission/ }, name);
  cli('ACL', 'SETUSER', 'default', '+get');
  t.ok(await store.tokens.get('T1'));
});
