import t from 'tap';
import { openRedisStore } from '../../src/store/redis.js';
import { redisSettings, startCluster, startRedis, startSentinel } from '../helpers/redis.js';
import { BASE, NOW, storeContract, token } from './contract.js';

let number = 0;
/** A prefix of its own for each case, so that one server serves all. */
const prefix = () => `test-${++number}:`;

t.test('the store contract on one node', async (t) => {
  const { url } = await startRedis(t);
  await storeContract(t, () => {
    const settings = redisSettings({ url, prefix: prefix() });
    return { open: () => openRedisStore(settings) };
  });
});

t.test('the store contract behind a sentinel', async (t) => {
  const { nodes } = await startSentinel(t);
  await storeContract(t, () => {
    const settings = redisSettings({ sentinel: { master: 'm', nodes }, prefix: prefix() });
    return { open: () => openRedisStore(settings) };
  });
});

t.test('the store contract on a cluster of three', async (t) => {
  const { nodes } = await startCluster(t);
  await storeContract(t, () => {
    const settings = redisSettings({ cluster: nodes, prefix: prefix() });
    return { open: () => openRedisStore(settings) };
  });
});

t.test('Redis forgets a sudo by itself, together with the longest one of its user', async (t) => {
  const { url, cli } = await startRedis(t);
  const store = await openRedisStore(redisSettings({ url }));
  await store.begin();
  await store.grantSudo('U1', 'T1', NOW + 300_000, NOW);
  await store.grantSudo('U1', 'T2', NOW + 120_000, NOW);
  const left = Number(cli('PTTL', '{latchkey:}sudo:U1'));
  t.ok(left > 120_000 && left <= 300_000, `${left} ms`);
  await store.grantSudo('U1', 'T3', NOW + 400_000, NOW + 200_000);
  t.same(cli('HKEYS', '{latchkey:}sudo:U1').split('\n').toSorted(), ['T1', 'T3'], 'what is over is no longer kept');
  await store.close();
}); // prettier-ignore

t.test('tokens of a store from before they were counted are counted at the next start', async (t) => {
  const { url, cli } = await startRedis(t);
  const store = await openRedisStore(redisSettings({ url }));
  await store.begin();
  await store.change(BASE, NOW);
  for (const [id, userId] of [['T1', 'U1'], ['T2', 'U1'], ['T3', 'U3']] as const)
    await store.createToken(token(id, { userId }), null, NOW);
  t.equal(cli('DEL', '{latchkey:}count:tokens'), '1');
  await store.begin();
  t.equal(await store.countActiveTokens(NOW), 3);
  await store.close();
}); // prettier-ignore
