import { join } from 'node:path';
import t from 'tap';
import { PASSWORD, startFixture } from '../helpers/fixture.js';
import { send } from '../helpers/http.js';
import { run } from '../helpers/latchkey.js';
import { startRedis } from '../helpers/redis.js';
import { matchLog, until } from '../helpers/until.js';

const SEALING_KEY = 'a1'.repeat(32);
const KEY = '{latchkey:}';

t.test('a damaged record denies only itself, is named, and can be removed', async (t) => {
  const redis = await startRedis(t, '--appendonly', 'yes');
  const store = { type: 'redis', sealing_key: SEALING_KEY, url: redis.url, command_timeout: '1s' };
  const { url, server, configFile, folder, ...fixture } = await startFixture(t, { store });
  const latchkey = async (...words: string[]) => run([...words, '--config', configFile]);
  // The digest of a token may begin with a dash, as options do.
  const remove = async (name: string) => run(['store', 'remove', '--config', configFile, 'token', '--', name]);
  const status = async (key: string) =>
    (await send(url, '/service/SVC1', { headers: { 'Service-Key': key } })).status;
  const [good, bad] = [await fixture.create('superuser'), await fixture.create('billing')];
  const [goodKey, badKey] = [good.json.access_token as string, bad.json.access_token as string];
  const pointer = redis.cli('GET', `${KEY}token_id:${bad.json.id as string}`);
  const digest = pointer.split('|')[1]?.slice('token:'.length) ?? '';
  const name = digest.slice(0, 8);

  redis.cli('SET', `${KEY}token:${digest}`, 'garbage');
  t.equal(await status(badKey), 503);
  t.equal(await status(goodKey), 200);
  await matchLog(t, server, new RegExp(`"latchkey store remove token (-- )?${name}\\\\?" removes it`));
  t.match(await latchkey('store', 'backup', join(folder, 'backup.jsonl')), { code: 1, stderr: /latchkey store remove token/ });
  t.match(await remove(name), { code: 0, stdout: `token ${name}: removed` });
  await until(async () => (await status(badKey)) === 401, 'it is unknown');
  t.match(await remove(name), { code: 1, stderr: /the store has no token/ });
  t.match(await latchkey('store', 'remove', 'token', good.json.id as string), { code: 1, stderr: /that cannot be read/ });

  redis.cli('SET', `${KEY}user:billing`, '{"v":1,"id":"billing","cust');
  redis.cli('SET', `${KEY}customer:C2`, '[]');
  t.match(await latchkey('apply'), { code: 1, stderr: /"latchkey store remove customer C2" removes it/ });
  t.match(await latchkey('store', 'remove', 'customer', 'C2'), { code: 0 });
  t.match(await latchkey('store', 'remove', 'user', 'billing'), { code: 0 });
  t.match(await latchkey('apply'), { code: 0, stdout: /\+ customer C2[^]*\+ user billing/ });
  const body = new URLSearchParams({ user: 'billing@example.com', password: PASSWORD });
  t.equal((await send(url, '/login', { body })).status, 200, 'it is declared again');
}); // prettier-ignore

t.test('a damaged record does not keep a server from using Redis again', async (t) => {
  const redis = await startRedis(t, '--appendonly', 'yes');
  const store = { type: 'redis', sealing_key: SEALING_KEY, url: redis.url, command_timeout: '1s' };
  const { url, token, configFile } = await startFixture(t, { store });
  const headers = { 'Service-Key': await token('superuser') };
  t.match(await run(['user', 'lock', 'engineer', '--config', configFile]), { code: 0 });
  redis.cli('SET', `${KEY}user:engineer`, 'garbage');
  await redis.kill();
  await redis.restart();
  // It asks Redis to lock the user again.
  await until(async () => (await send(url, '/service/SVC1', { headers })).status === 200, 'used again');
});
