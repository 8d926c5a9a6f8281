import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { startFixture } from '../helpers/fixture.js';
import { send } from '../helpers/http.js';
import { run } from '../helpers/latchkey.js';
import { startProxy } from '../helpers/proxy.js';
import { startRedis } from '../helpers/redis.js';
import { matchLog, until } from '../helpers/until.js';

const SEALING_KEY = 'a1'.repeat(32);
const NOT_CONFIRMED = /not confirmed/;

t.test('an unconfirmed change is never reported as undone, and is in the audit log', async (t) => {
  const redis = await startRedis(t);
  const proxy = await startProxy(t, redis.port);
  const { url, server, folder, configFile, token } = await startFixture(t, {
    store: { type: 'redis', sealing_key: SEALING_KEY, url: proxy.url, command_timeout: '1s' },
    audit: { to: './audit.jsonl' },
  });
  const entries = (event: string, outcome: string) =>
    readFileSync(join(folder, 'audit.jsonl'), 'utf8')
      .split('\n')
      .filter((line) => line.includes(`"event":"${event}","outcome":"${outcome}"`));
  const key = await token('superuser');
  const headers = { 'Service-Key': key };
  // By now Redis has cached the scripts; loading one first would look like an answer.
  const another = { 'Service-Key': await token('superuser') };
  t.equal((await send(url, '/tokens/self', { method: 'DELETE', headers: another })).status, 204);
  t.equal((await send(url, '/service/SVC1', { headers })).status, 200);

  await t.test('a reload whose directory change got no answer', async (t) => {
    const file = join(folder, 'directory.yaml');
    writeFileSync(file, readFileSync(file, 'utf8').replace('role: engineer', 'role: billing'));
    proxy.mute('"user:engineer"');
    const reply = await send(server.admin, '/-/reload', { method: 'POST' });
    t.equal(reply.status, 503, 'neither reloaded nor refused');
    t.match(reply.json.faults, [/the change is not confirmed; it may have been applied/]);
    t.notMatch(reply.text + server.stdout(), /nothing was changed/);
    const [entry = '{}'] = entries('directory.applied', 'unknown');
    t.match(JSON.parse(entry), { target: { updated: 1, records: ['update user engineer'] } });
    proxy.open();
    await until(() => /"msg":"reloaded"/.test(server.stdout()), 'the retry');
    const shown = await run(['user', 'show', 'engineer', '--json', '--config', configFile]);
    t.match(JSON.parse(shown.stdout), { role: 'billing' }, 'it had been applied');
  });

  await t.test('a command whose lock got no answer', async (t) => {
    proxy.mute('"user:engineer"');
    const locked = await run(['user', 'lock', 'engineer', '--config', configFile]);
    t.equal(locked.code, 1);
    t.match(locked.stderr, NOT_CONFIRMED);
    proxy.open();
    const ofLock = (outcome: string) =>
      entries('user.changed', outcome).filter((entry) => entry.includes('"reason":"locked"'));
    t.equal(ofLock('unknown').length, 1);
    t.equal(ofLock('success').length, 0);
  });

  await t.test('a command whose new token got no answer', async (t) => {
    proxy.mute('lost');
    const made = await run(['token', 'create', '--user', 'billing', '--name', 'lost', '--config', configFile]);
    t.match(made, { code: 1, stdout: /^$/ });
    t.match(
      made.stderr,
      /the change is not confirmed; it may have been applied \(.+\); "latchkey token list" shows the token if it was created\n$/,
    );
    proxy.open();
    const [entry = '{}'] = entries('token.created', 'unknown');
    t.match(JSON.parse(entry), { target: { user_id: 'billing' }, actor: { operator: /./ } });
    const listed = await run(['token', 'list', '--config', configFile]);
    t.match(listed.stdout, 'lost', 'it was created');
  });

  await t.test('a client whose revocation got no answer', async (t) => {
    const served = async () => (await send(url, '/service/SVC1', { headers })).status;
    await until(async () => (await served()) === 200, 'the store is available again');
    await until(async () => /^latchkey_store_links_up 1$/m.test((await send(server.admin, '/metrics')).text), 'the link');
    await served();
    const shown = await send(url, '/tokens/self', { headers });
    proxy.mute(`"token:${shown.json.id}"`);
    const reply = await send(url, '/tokens/self', { method: 'DELETE', headers });
    t.match([reply.status, reply.json.detail], [503, 'The change is not confirmed; it may have been applied']);
    await matchLog(t, server, /"reason":"the change is not confirmed; it may have been applied \(/);
    proxy.open();
    const [entry = '{}'] = entries('token.revoked', 'unknown');
    t.match(JSON.parse(entry), { target: { token_id: shown.json.id }, actor: { user_id: 'superuser' } });
    await until(async () => (await served()) === 401, 'it was revoked');
  });
}); // prettier-ignore
