import { spawn } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import t from 'tap';
import { startFixture } from '../helpers/fixture.js';
import { send } from '../helpers/http.js';
import { run } from '../helpers/latchkey.js';
import { EVERY_CASE } from '../helpers/nightly.js';
import { startRedis } from '../helpers/redis.js';
import { rememberSecret } from '../helpers/secrets.js';
import { until } from '../helpers/until.js';

const status = async (url: string, key: string) =>
  (await send(url, '/service/SVC1', { headers: { 'Service-Key': key } })).status;

/** Runs a command that is killed at its first write; resolves to the signal. */
async function killed(when: 'before' | 'within' | 'after', args: readonly string[]): Promise<string | null> {
  const preload = ['--import', resolve('test/helpers/die-at-write.mjs'), 'dist/cli.js'];
  const env = { ...process.env, DIE_AT: '1', DIE_WHEN: when };
  const child = spawn(process.execPath, [...preload, ...args], { stdio: 'ignore', env });
  return new Promise((done) => child.once('close', (_code, signal) => done(signal)));
}

t.test('token rotate prints a secret that works together with the old one; killed, it makes both changes or neither', async (t) => {
  const stores = [{ type: 'lmdb' }, ...(EVERY_CASE ? [{ type: 'redis', url: (await startRedis(t)).url, sealing_key: 'a1'.repeat(32) }] : [])];
  for (const store of stores) {
    const { url, create, configFile, folder, server } = await startFixture(t, { store, audit: { to: './audit.jsonl' } });
    const { id, access_token: old } = (await create('engineer', { name: 'nightly', 'services[]': 'SVC1' })).json;
    const made = await run(['token', 'rotate', id, '--overlap', '1h', '--config', configFile]);
    const secret = made.stdout.trim();
    rememberSecret(secret);
    t.match(made, { code: 0, stdout: /^lk\w{38}\n$/, stderr: new RegExp(`^token \\w{22} replaces ${id}, which expires at 2\\S+; the new secret is shown only once:\n$`) });
    t.same([await status(url, old), await status(url, secret)], [200, 200], 'both are valid');
    t.match((await send(url, '/tokens/self', { headers: { 'Service-Key': secret } })).json, { predecessor_id: id, name: 'nightly', services: ['SVC1'] });
    t.match(await run(['token', 'show', id, '--config', configFile]), { stdout: /^replaced by +\w{22}$/m });
    const entries = (name: string) => readFileSync(join(folder, 'audit.jsonl'), 'utf8').trim().split('\n').map((line) => JSON.parse(line)).filter(({ event }) => event === name);
    t.match(entries('token.rotated'), [{ target: { token_id: id }, actor: { operator: String } }]);
    await until(async () => /^latchkey_tokens_in_overlap 1$/m.test((await send(server.admin, '/metrics')).text), 'counted within seconds', 15_000);

    const next = (await send(url, '/tokens/self', { headers: { 'Service-Key': secret } })).json.id as string;
    const json = await run(['token', 'rotate', next, '--json', '--config', configFile]);
    rememberSecret(JSON.parse(json.stdout).access_token);
    t.match(JSON.parse(json.stdout), { predecessor_id: next, user_id: 'engineer' });
    t.match(await run(['token', 'rotate', id, '--config', configFile]), { code: 1, stderr: new RegExp(`already replaced by ${next}`) });
    t.match(entries('token.rotation_repeated'), [{ outcome: 'denied', target: { token_id: id, successor_id: next }, actor: { operator: String } }]);
    for (const [command, done, answer] of [['suspend', 'suspended', 401], ['resume', 'resumed', 200]] as const) {
      t.match(await run(['token', command, id, '--config', configFile]), { code: 0, stdout: `${id}: ${done}, and with it 2 tokens that came from rotations\n` });
      for (const key of [old, secret, JSON.parse(json.stdout).access_token]) t.equal(await status(url, key), answer, done);
    }
    t.match(await run(['token', 'revoke', next, '--config', configFile]), { code: 0, stdout: `${next}: revoked, and with it 1 token that came from rotations\n` });
    t.same([await status(url, old), await status(url, secret), await status(url, JSON.parse(json.stdout).access_token)], [200, 401, 401], 'not the one before it');
    t.match(await run(['token', 'rotate', id, '--overlap', '8d', '--config', configFile]), { code: 1, stderr: /overlap is more than 604800 seconds/ });
    t.match(await run(['token', 'rotate', id, '--overlap', 'soon', '--config', configFile]), { code: 2, stderr: /--overlap: expected a duration/ });
    t.match(await run(['token', 'rotate', 'none', '--config', configFile]), { code: 1, stderr: /Cannot find token 'none'/ });

    const { id: brief, access_token: last } = (await create('user')).json;
    const rotated = await send(url, '/tokens/self/rotate', { method: 'POST', headers: { 'Service-Key': last, 'User-Agent': 'nightly/2.0' }, body: new URLSearchParams({ overlap: '1' }) });
    const ended = () => entries('token.expired').filter(({ target }) => target.token_id === brief);
    await until(() => ended().length > 0, 'the end of an overlap is recorded within seconds', 25_000);
    t.match(ended(), [{ reason: 'rotated', target: { successor_id: rotated.json.id, last_ip: '127.0.0.1', last_user_agent: 'nightly/2.0' } }]);

    for (const when of EVERY_CASE ? (['before', 'within', 'after'] as const) : (['within'] as const)) {
      const plain = (await create('user')).json.id as string;
      t.equal(await killed(when, ['token', 'rotate', plain, '--config', configFile]), 'SIGKILL');
      const { stdout } = await run(['token', 'list', '--user', 'user', '--json', '--config', configFile]);
      const tokens = JSON.parse(stdout) as { id: string; expires_at: string | null; predecessor_id?: string }[];
      const shortened = tokens.find((each) => each.id === plain)?.expires_at !== null;
      const replaced = tokens.some((each) => each.predecessor_id === plain);
      t.equal(shortened, replaced, `${store.type}, killed ${when}: both or neither`);
      if (when !== 'within' || store.type === 'lmdb') t.equal(replaced, when === 'after', `${store.type}, killed ${when}`);
    }
  }
}); // prettier-ignore
