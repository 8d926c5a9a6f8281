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
  const fixture = await startFixture(t, { store });
  const { url, server, configFile, folder } = fixture;
  const latchkey = async (...words: string[]) => run([...words, '--config', configFile]);
  const status = async (key: string) =>
    (await send(url, '/service/SVC1', { headers: { 'Service-Key': key } })).status;
  const login = async (user: string) =>
    send(url, '/login', { body: new URLSearchParams({ user: `${user}@example.com`, password: PASSWORD }) });
  const made = [await fixture.create('superuser'), await fixture.create('superuser'), await fixture.create('billing')]; // prettier-ignore
  const [good = '', bad = '', billing = ''] = made.map(({ json }) => json.access_token as string);
  const [, badId = '', billingId = ''] = made.map(({ json }) => json.id as string);
  const digest = redis.cli('GET', `${KEY}id:${badId}`);

  const Cookie = await fixture.login('superuser');

  redis.cli('SET', `${KEY}token:${digest}`, 'garbage');
  t.equal(await status(bad), 503);
  t.equal(await status(good), 200);
  for (const path of ['/tokens', '/customer/C1/tokens']) {
    const { status: code, text } = await send(url, path, { headers: { Cookie } });
    t.equal(code, 200, path);
    t.notMatch(text, badId);
  }
  await matchLog(t, server, new RegExp(`"level":40.*\\(token ${badId}; .*unreadable record left out`));
  const named = new RegExp(`a token record is damaged \\(token ${badId}; "latchkey token revoke ${badId}" removes it\\)\n$`); // prettier-ignore
  t.match(await latchkey('token', 'list'), { code: 1, stdout: billingId, stderr: named });
  t.match(await latchkey('store', 'backup', join(folder, 'backup.jsonl')), { code: 1, stderr: named });
  t.match(await latchkey('token', 'revoke', badId), { code: 0, stdout: `${badId}: revoked` });
  await until(async () => (await status(bad)) === 401, 'it is unknown');
  t.match(await latchkey('token', 'list'), { code: 0, stderr: '' });

  redis.cli('SET', `${KEY}user:billing`, '{"v":1,"id":"billing","cust');
  redis.cli('SET', `${KEY}customer:C2`, '[]');
  t.equal(await status(billing), 503);
  t.equal((await login('billing')).status, 503);
  t.equal((await login('engineer')).status, 200);
  t.match(await latchkey('user', 'list'), {
    code: 1,
    stdout: 'other@example.com',
    stderr: /customer C2; .*\n.*user billing; "latchkey user delete billing" removes it\)\n$/,
  });
  t.match(await latchkey('apply'), { code: 1, stderr: /a user record is damaged \(user billing; / });
  t.match(await latchkey('user', 'delete', 'billing'), { code: 1, stderr: new RegExp(billingId) });
  t.match(await latchkey('token', 'revoke', billingId), { code: 0 });
  t.match(await latchkey('user', 'delete', 'billing'), { code: 0, stdout: 'billing: deleted' });
  t.match(await latchkey('apply'), { code: 0, stdout: /\+ customer C2[^]*\+ user billing/ });
  t.match(await latchkey('user', 'list'), { code: 0, stderr: '' });
  t.equal((await login('billing')).status, 200, 'it is declared again');
});

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
