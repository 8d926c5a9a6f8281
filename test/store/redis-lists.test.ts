import t, { type Test } from 'tap';
import { RedisClient } from '../../src/store/redis/client.js';
import { Reads } from '../../src/store/redis/reads.js';
import { openRedisStore } from '../../src/store/redis.js';
import { recordsOf } from '../../src/store/transfer.js';
import { redisSettings, startRedis } from '../helpers/redis.js';
import { until } from '../helpers/until.js';
import { BASE, NOW, token, user } from './contract/records.js';

const KEY = (name: string) => `{latchkey:}${name}`;
const MANY = 20_000;

/** Adds members to a set in one command. */
function fill(
  cli: (...args: string[]) => string,
  name: string,
  from: number,
  to: number,
  command = 'SADD',
): void {
  const script = `for i = ${from}, ${to} do redis.call('${command}', KEYS[1], 'member-' .. string.format('%035d', i)) end`;
  cli('EVAL', script, '1', KEY(name));
}

async function openClient(t: Test, url: string): Promise<RedisClient> {
  const client = new RedisClient(redisSettings({ url }));
  await client.connected();
  t.teardown(() => client.close());
  return client;
}

t.test('keeps every answer to a list command small, however many entries there are', async (t) => {
  const { url, cli } = await startRedis(t);
  const store = await openRedisStore(redisSettings({ url }));
  t.teardown(() => store.maintenance.close());
  await store.maintenance.initialize();
  await store.directory.change(BASE, NOW);
  const services = Array.from({ length: 100 }, (_, i) => `S${i}`.padEnd(64, 'x'));
  await store.directory.change(
    { tokens: Array.from({ length: 150 }, (_, i) => token(`T${i}`, { services })) },
    NOW,
  );
  await store.directory.change({ users: Array.from({ length: 600 }, (_, i) => user(`N${i}`)) }, NOW);
  // Index entries without records are read, too.
  for (const name of ['revoked', 'users:C2', 'tokens:U2', 'sessions:U2', 'pending_deletions', 'services:C1'])
    fill(cli, name, 1, MANY);

  let [largest, answers] = [0, 0];
  const script = store.client.script.bind(store.client);
  store.client.script = async (...args) => {
    const answer = await script(...args);
    largest = Math.max(largest, JSON.stringify(answer).length);
    answers += 1;
    return answer;
  };
  t.equal((await store.tokens.listRevokedDigests()).length, MANY);
  t.equal((await store.directory.listPendingDeletions()).length, MANY);
  t.equal((await store.directory.listUsers('C1')).length, 602);
  t.equal((await store.tokens.listOfUser('U1')).length, 150);
  t.equal((await store.directory.listServices('C1')).length, 1);
  cli('SET', KEY('count:tokens'), String(MANY * 2));
  t.equal(await store.tokens.customerHasAtLeast('C1', 150 + MANY), true);
  t.equal(await store.tokens.customerHasAtLeast('C1', 151 + MANY), false);
  let records = 0;
  for await (const _ of recordsOf(store)) records += 1;
  t.equal(records, MANY + 2 + 1 + 603 + 150, 'a backup contains all of it');
  // 256 KiB, one more record, and the JSON around them.
  t.ok(largest < 320 * 1024, `${largest} bytes in the largest of ${answers} answers`);
});

t.test('a list contains everything that is present throughout its pages', async (t) => {
  const { url, cli } = await startRedis(t);
  const client = await openClient(t, url);
  await client.begin('{}');
  fill(cli, 'set', 1, 3_000);
  let page = 0;
  const disturbed = {
    script: async (...args: Parameters<RedisClient['script']>) => {
      const answer = await client.script(...args);
      page += 1;
      // The set grows to many times its size, and shrinks again.
      fill(cli, 'set', 3_001, 40_000, page % 2 === 1 ? 'SADD' : 'SREM');
      return answer;
    },
  };
  const found = await new Reads(disturbed as unknown as RedisClient).members('set');
  t.equal(new Set(found).size, found.length, 'no duplicates');
  const kept = found.filter((member) => Number(member.slice('member-'.length)) <= 3_000);
  t.equal(kept.length, 3_000);
  t.ok(page > 3, `${page} pages`);
});

t.test('restarts a list that a failover interrupts: each server has its own cursors', async (t) => {
  const master = await startRedis(t, '--repl-diskless-sync-delay', '0');
  const first = await openClient(t, master.url);
  await first.begin('{}');
  fill(master.cli, 'set', 1, 5_000);
  const replica = await startRedis(t, '--replicaof', `127.0.0.1 ${master.port}`);
  await until(() => replica.cli('SCARD', KEY('set')) === '5000', 'the replica is in step');
  replica.cli('REPLICAOF', 'NO', 'ONE');
  const second = await openClient(t, replica.url);
  for (const at of [1, 4]) {
    let page = 0;
    const failingOver = {
      script: async (...args: Parameters<RedisClient['script']>) => ((page += 1) > at ? second : first).script(...args),
    };
    const found = await new Reads(failingOver as unknown as RedisClient).members('set');
    t.equal(found.length, 5_000, `after ${at} pages`);
  }
}); // prettier-ignore
