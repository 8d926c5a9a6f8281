import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { selfSigned } from '../helpers/certificates.js';
import { DECIDES, entrancesOf } from '../helpers/entrances.js';
import { client, directory } from '../helpers/fixture.js';
import { send, startUpstream } from '../helpers/http.js';
import { openHttp2 } from '../helpers/http2.js';
import { run, start, temporaryFolder, writeConfig } from '../helpers/latchkey.js';

const folder = temporaryFolder(t);
const upstream = await startUpstream(t);
const configFile = writeConfig(
  folder,
  {
    upstream: upstream.url,
    listen: {
      host: '127.0.0.1',
      port: 0,
      tls: selfSigned(folder, 'localhost'),
      trusted_proxies: ['127.0.0.1'],
    },
    decision: { host: '127.0.0.1', port: 0, grpc: { port: 0 } },
    audit: { to: './audit.jsonl' },
  },
  await directory(),
);
const server = await start(t, configFile);
const { token, create, login } = client(server.url);
const ENTRANCES = entrancesOf(server, await openHttp2(t, server.url));
const asked = (key: string, address?: string) => ({
  method: 'GET',
  path: '/x',
  headers: {
    'Service-Key': key,
    ...(address === undefined ? {} : { 'X-Forwarded-For': address, 'X-Forwarded-Proto': 'https' }),
  },
});
const latchkey = (...args: string[]) => run([...args, '--config', configFile]);

t.test('addresses: checks the client behind trusted proxies, at every entrance', async (t) => {
  const key = await token('superuser', new URLSearchParams([['addresses[]', '10.0.0.0/8'], ['addresses[]', '2001:db8::/32'], ['addresses[]', '::ffff:192.0.2.0/120']]));
  const rows = [
    ['10.1.2.3', true],
    ['::ffff:10.1.2.3', true],
    ['::ffff:0a01:0203', true],
    ['192.0.2.200', true],
    ['2001:db8:1::9', true],
    ['[2001:db8::1]:4711', true],
    ['11.0.0.1, 10.1.2.3', true],
    ['10.1.2.3, 11.0.0.1', false],
    ['11.0.0.1', false],
    ['::ffff:11.0.0.1', false],
    ['2001:db9::1', false],
    ['::a01:203', false],
    ['unknown', false],
    [undefined, false],
  ] as const;
  for (const [address, isIn] of rows)
    for (const [name, ask] of Object.entries(ENTRANCES)) {
      const reply = await ask(asked(key, address));
      const what = `${address} by ${name}`;
      t.equal(reply.status, isIn ? 200 : 403, what);
      if (!isIn) t.match(reply.json, { msg: 'You are not authorized to perform this action', detail: /^The token is not accepted from the address / }, what);
    }
}); // prettier-ignore

t.test('suspended: same bytes as for an unknown token at every entrance, at once and until resumed', async (t) => {
  const { access_token: key, id } = (await create('superuser')).json;
  const unknown = await token('superuser');
  await send(server.url, '/tokens/self', { method: 'DELETE', headers: { 'Service-Key': unknown } });
  const allowed = async () => Promise.all(Object.values(ENTRANCES).map(async (ask) => (await ask(asked(key))).status === 200));
  const cookie = { Cookie: await login('superuser') };
  const byPatch = (suspended: boolean) => send(server.url, `/tokens/${id}`, { method: 'PATCH', headers: cookie, json: { suspended } });
  const byCommand = (suspended: boolean) => latchkey('token', suspended ? 'suspend' : 'resume', id);
  for (const change of [byPatch, byCommand]) {
    t.ok((await allowed()).every(Boolean));
    await change(true);
    for (const [name, ask] of Object.entries(ENTRANCES)) {
      const [suspended, model] = [await ask(asked(key)), await ask(asked(unknown))];
      t.equal(suspended.status, 401, name);
      t.equal(suspended.text, model.text, name);
      const names = (fields: readonly string[]) => fields.filter((_, i) => i % 2 === 0);
      t.same(names(suspended.rawHeaders), names(model.rawHeaders), name);
    }
    await change(false);
  }
  t.ok((await allowed()).every(Boolean));
}); // prettier-ignore

t.test(
  'rate: counts requests at every entrance; the one over the limit gets 429 with the time to wait',
  async (t) => {
    for (const [name, ask] of Object.entries(ENTRANCES)) {
      const key = await token('superuser', { rate: '2/1h' });
      t.not((await ask(asked(key))).status, 429, name);
      t.equal((await send(server.url, '/x', { headers: { 'Service-Key': key } })).status, 200, name);
      const over = await ask(asked(key));
      t.equal(over.status, DECIDES.has(name) ? 403 : 429, name);
      t.ok(Number(over.headers['retry-after']) > 1_700, `${name}: ${over.headers['retry-after']} s`);
    }
  },
);

t.test('commands: create sets limits, show and list print them, explain says why a request is refused', async (t) => {
  const made = await latchkey('token', 'create', '--user', 'superuser@example.com', '--expires-in', '90d', '--rate', '600/1m', '--address', '10.0.0.0/8', '--address', '::1', '--json');
  t.equal(made.stderr, '');
  const { id, access_token: key, ...rest } = JSON.parse(made.stdout);
  t.match(rest, { rate: '600/1m', addresses: ['10.0.0.0/8', '::1'] });
  const days = (Date.parse(rest.expires_at) - Date.now()) / 86_400_000;
  t.ok(days > 89.9 && days <= 90, String(days));
  t.match((await latchkey('token', 'show', id)).stdout, /^rate +600\/1m\n.*10\.0\.0\.0\/8,::1/m);
  const keyFile = join(folder, 'key');
  writeFileSync(keyFile, key);
  const explain = async (...args: string[]) => JSON.parse((await latchkey('explain', '--path', '/x', '--key-file', keyFile, '--json', ...args)).stdout);
  t.match(await explain(), { verdict: { outcome: 'address', status: 403, detail: /127\.0\.0\.1/ }, credential: { token_id: id, rate: '600/1m' } });
  t.match(await explain('--address', '10.9.9.9'), { verdict: { outcome: 'forward' } });
  t.match((await latchkey('explain', '--path', '/x', '--key-file', keyFile, '--address', '10.9.9.9')).stdout, /addresses +10\.0\.0\.0\/8, ::1/);
  t.match(await latchkey('token', 'suspend', id), { code: 0, stdout: `${id}: suspended\n` });
  t.match(await explain('--address', '10.9.9.9'), { verdict: { outcome: 'unauthenticated' }, note: `the token ${id} is suspended` });
  t.match((await latchkey('token', 'list', '--user', 'superuser@example.com')).stdout, /SUSPENDED\n[^]* in 2 months +yes$/m);
  t.match((await latchkey('token', 'show', id)).stdout, /^suspended +yes$/m);
  t.match(await latchkey('token', 'resume', id), { code: 0, stdout: `${id}: resumed\n` });
  for (const [args, stderr] of [
    [['token', 'suspend', 'nope'], /there is no token nope/],
    [['token', 'create', '--user', 'superuser@example.com', '--rate', '5'], /a rate like 600\/1m/],
    [['token', 'create', '--user', 'superuser@example.com', '--address', '10.1.1.1/8'], /addresses must be IP addresses and ranges/],
    [['token', 'create', '--user', 'superuser@example.com', '--expires-in', 'soon'], /--expires-in: expected a duration/],
    [['token', 'create', '--user', 'superuser@example.com', '--expires-in', '1d', '--expires-at', '2099-01-01T00:00:00Z'], /cannot be used with/],
    [['explain', '--path', '/x', '--anonymous', '--address', 'here'], /--address: expected an IP address/],
  ] as const) {
    const refused = await latchkey(...args);
    t.match(refused, { code: /[12]/, stderr }, args.join(' '));
  }
}); // prettier-ignore
