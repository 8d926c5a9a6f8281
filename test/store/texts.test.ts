import { ReplyError } from 'ioredis';
import t from 'tap';
import { personOf, sidOf } from '../../src/accounts/oidc/claims.js';
import type { ProviderSettings } from '../../src/accounts/oidc/settings.js';
import { openRedisStore } from '../../src/store/redis.js';
import { asUnavailable } from '../../src/store/redis/changes.js';
import { RecordCheck } from '../../src/store/record-check.js';
import { PASSWORD } from '../helpers/fixture.js';
import { serveHttp } from '../helpers/http.js';
import { startInProcess } from '../helpers/in-process.js';
import { redisSettings, startRedis } from '../helpers/redis.js';
import { forEachRow } from '../helpers/table.js';

/* What one store can hold, every store can: a text gets the same answer with each of them. */

const TEXTS = [
  'plain', ' ', '"', '\\', '\\ud83d', '\0', '\x01', '\x7f', '\x80', '\u00a0', 'é', 'e\u0301', '\u2028', '\u202e', '\ufeff',
  '\ufffd', '\ufffe', '\uffff', '\u{1f511}', '\u{10ffff}', '\ud83d', 'cut \ud83d', '\udd11', '\udd11\ud83d', '\ud83d\ud83d\udd11',
  '\ud83dx', 'a'.repeat(255), 'a'.repeat(256), '\u{1f511}'.repeat(255), '\u{1f511}'.repeat(256), '\ufdfa'.repeat(60),
  '__proto__', '[]', '{}', 'null', '%s', '${x}', '{a}',
]; // prettier-ignore
/** The first characters of a text as code points: some of them would break a line of the report. */
const shown = (text: string) =>
  Array.from(text.slice(0, 9), (each) => each.codePointAt(0)?.toString(16)).join(' ');
const LONE = TEXTS.filter((text) => !text.isWellFormed());

/** No login waits for another. */
const FREE = { max_failures: 100 };

const { url } = await startRedis(t);

/** Returns the setting of each store, all of them new. */
async function newStores(prefix: string): Promise<readonly object[]> {
  const store = await openRedisStore(redisSettings({ url, prefix }));
  await store.maintenance.initialize();
  await store.maintenance.close();
  return [{}, { store: { type: 'redis', url, prefix, sealing_key: '0b'.repeat(32) } }];
}

t.test('every text gets the same answer with both stores, wherever a client sends it', async (t) => {
  const stores = await newStores('clients:');
  const servers = await Promise.all(stores.map((store) => startInProcess(t, { ...store, login: FREE })));
  const user = { username: 'superuser@example.com', password: PASSWORD };
  const statusesOf = async (target: string, body: object) =>
    Promise.all(
      servers.map(async ({ request }) => {
        const headers = { 'Content-Type': 'application/json' };
        return (await request(target, { method: 'POST', headers, body: JSON.stringify(body) })).status;
      }),
    );
  for (const text of TEXTS) {
    const about = shown(text);
    const [named, alike] = await statusesOf('/tokens', { ...user, name: text });
    t.equal(named, alike, `name ${about}`);
    if (LONE.includes(text)) t.equal(named, 422, `name ${about}`);
    for (const [target, body, wanted] of [
      ['/tokens', { ...user, scope: text }, 400],
      ['/tokens', { ...user, services: [text] }, 422],
      ['/tokens', { ...user, username: text }, 400],
      ['/login', { user: text, password: PASSWORD }, 400],
      ['/login', { user: 'user@example.com', password: text }, 400],
    ] as const) {
      const [status, other] = await statusesOf(target, body);
      t.equal(status, other, `${target} ${about}`);
      if (LONE.includes(text)) t.equal(status, wanted, `${target} ${about}`);
    }
  }
});

t.test('an account source may send any text', async (t) => {
  let account: Record<string, unknown> = {};
  const source = await serveHttp(t, (_, res) => void res.end(JSON.stringify(account)));
  const stores = await newStores('accounts:');
  const settings = { login: FREE, directory: { http: { url: source.url } } };
  const servers = await Promise.all(stores.map((store) => startInProcess(t, { ...store, ...settings })));
  let id = 0;
  for (const text of [...TEXTS, `${'a'.repeat(254)}\u{1f511}`]) {
    id += 1;
    for (const [field, wanted] of [['name', 200], ['role', 503]] as const) {
      account = { id: `${field}${id}`, customer_id: 'C1', name: 'a', role: 'user', [field]: text };
      const statuses = [];
      for (const { request } of servers) {
        const body = new URLSearchParams({ user: `${field}${id}`, password: PASSWORD });
        statuses.push((await request('/login', { method: 'POST', body })).status);
      }
      t.equal(statuses[0], statuses[1], `${field} ${shown(text)}`);
      if (field === 'name' || LONE.includes(text)) t.equal(statuses[0], wanted, `${field} ${shown(text)}`);
    }
  }
}); // prettier-ignore

t.test('a provider may send any text', (t) => {
  const settings = { login_claim: 'email', allow_unverified_email: true } as ProviderSettings;
  forEachRow(LONE, (text) => {
    t.throws(() => personOf({ sub: text, email: 'a' }, settings), /sub/);
    t.throws(() => personOf({ sub: 'a', email: text }, settings), /email/);
    t.ok(personOf({ sub: 'a', email: 'a', name: text }, settings).name.isWellFormed());
    t.equal(sidOf({ sid: text }), null);
  });
  t.end();
});

t.test('a copy or a backup of an older store is made well-formed', (t) => {
  const value = { id: 'C1', name: 'cut \ud83d' };
  t.same(new RecordCheck().add({ kind: 'customer', value }).value, { id: 'C1', name: 'cut \ufffd' });
  t.end();
});

t.test('names the cause of a failed script', (t) => {
  const about = 'script: 0f, on @user_script:5.';
  forEachRow(
    [
      [`ERR user_script:5: Expected value but found invalid token at character 1 ${about}`, /^Redis is unavailable \(ERR/],
      ['ERR Error running script (call to f_0f): @user_script:5: user_script:5: Expected value', /^Redis is unavailable \(ERR/],
      [`OOM command not allowed when used memory > 'maxmemory'. ${about}`, /^Redis is unavailable \(OOM/],
      ["ERR Error running script (call to f_0f): @user_script:5: @user_script: 5: -OOM command not allowed when used memory > 'maxmemory'.", /^Redis is unavailable \(/],
      ["NOPERM this user has no permissions to run the 'evalsha' command", /^the Redis user lacks a permission .* \(NOPERM .*'evalsha'/],
      [`ERR The user executing the script can't run this command or subcommand ${about}`, /^the Redis user lacks a permission/],
      ['ERR Error running script (call to f_0f): @user_script:5: -NOPERM this user', /^the Redis user lacks a permission/],
      ['LOADING Redis is loading the dataset in memory', /^Redis is unavailable \(LOADING/],
    ] as const,
    ([message, wanted]) => t.match(asUnavailable(new ReplyError(message, '')).message, wanted),
  );
  t.match(asUnavailable(new Error('ERR user_script: closed')).message, /^Redis is unavailable/);
  t.end();
}); // prettier-ignore
