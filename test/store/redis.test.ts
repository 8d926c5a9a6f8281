import t from 'tap';
import { openRedisStore } from '../../src/store/redis.js';
import { redisSettings, startCluster, startRedis, startSentinel } from '../helpers/redis.js';
import { storeContract } from './contract.js';

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
