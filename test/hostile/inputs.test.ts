import * as fc from 'fast-check';
import t from 'tap';
import { client, PASSWORD, startFixture } from '../helpers/fixture.js';
import { send } from '../helpers/http.js';
import { EVERY_CASE } from '../helpers/nightly.js';
import { options, told } from '../helpers/property.js';
import { startRedis } from '../helpers/redis.js';

/**
 * Text that is difficult for stores and formats: long keys, text that grows under case folding or
 * normalization, separators, extreme dates.
 */
const TRICKY = [
  '\ufdfa'.repeat(341),
  '\ufdfa'.repeat(20),
  'x'.repeat(1_024),
  'x'.repeat(1_979),
  'x'.repeat(5_000),
  '\u0000',
  'superuser\u0000',
  '\uffff',
  '__proto__',
  '{}',
  '*',
  '9999-12-31T23:59:59-10:00',
  '0000-01-01T00:00:00+10:00',
  '9999-12-31T23:59:59Z',
];

const text = fc.oneof(
  { weight: 3, arbitrary: fc.constantFrom(...TRICKY) },
  { weight: 1, arbitrary: fc.string({ unit: 'grapheme', maxLength: 60 }).map((each) => each.toWellFormed()) },
);

/**
 * Every input of a built-in endpoint or route that takes text from a client.
 * @param Cookie of a superuser's session
 */
const placesOf = (url: string, Cookie: string): Record<string, (value: string) => Parameters<typeof send>> => ({
  'login user': (user) => [url, '/login', { body: new URLSearchParams({ user, password: 'x' }) }],
  'login password': (password) => [url, '/login', { body: new URLSearchParams({ user: 'nobody', password }) }],
  'login otp': (otp) => [url, '/login', {
    body: new URLSearchParams({ user: 'twofactor@example.com', password: PASSWORD }),
    headers: { 'Service-OTP': encodeURIComponent(otp).slice(0, 4_000) },
  }],
  'tokens username': (username) => [url, '/tokens', { body: new URLSearchParams({ username, password: 'x' }) }],
  ...Object.fromEntries(['name', 'scope', 'services[]', 'service_id', 'expires_at'].map((name) => [
    `tokens ${name}`,
    (value: string) => [url, '/tokens', {
      body: new URLSearchParams({ username: 'superuser@example.com', password: PASSWORD, [name]: value }),
    }] as Parameters<typeof send>,
  ])),
  'sudo username': (username) => [url, '/sudo', { body: new URLSearchParams({ username, password: 'x' }) }],
  'sudo password': (password) => [url, '/sudo', { body: new URLSearchParams({ password }), headers: { Cookie } }],
  'tokens in a body': (id) => [url, '/tokens', { method: 'DELETE', headers: { Cookie }, json: { data: [{ type: 'token', id }] } }],
  'token of a path': (id) => [url, `/tokens/${encodeURIComponent(id)}`, { headers: { Cookie } }],
  'token to revoke': (id) => [url, `/tokens/${encodeURIComponent(id)}`, { method: 'DELETE', headers: { Cookie } }],
  'customer of a path': (id) => [url, `/customer/${encodeURIComponent(id)}/tokens`, { headers: { Cookie } }],
  'session of a path': (id) => [url, `/_latchkey/sessions/${encodeURIComponent(id)}`, { method: 'DELETE', headers: { Cookie } }],
  'user of a guarded route': (id) => [url, `/user/${encodeURIComponent(id)}`, { method: 'DELETE', headers: { Cookie } }],
  'session cookie': (value) => [url, '/x', { headers: { Cookie: `service.session=${encodeURIComponent(value).slice(0, 4_000)}` } }],
  key: (value) => [url, '/x', { headers: { 'Service-Key': encodeURIComponent(value).slice(0, 4_000) } }],
}); // prettier-ignore

const redis = await startRedis(t);
const STORES = {
  lmdb: { settings: { type: 'lmdb' }, runs: 4 },
  redis: {
    settings: { type: 'redis', url: redis.url, sealing_key: 'ab'.repeat(32), command_timeout: '5s' },
    runs: 2,
  },
};

for (const [kind, { settings, runs }] of Object.entries(STORES)) {
  // `test/store/texts.test.ts` compares both stores.
  if (kind === 'redis' && !EVERY_CASE) continue;
  const { url } = await startFixture(t, {
    interface: { account_endpoints: true, token_endpoints: 'session_or_token' },
    login: { max_failures: 100 },
    store: settings,
  });
  for (const [place, request] of Object.entries(placesOf(url, await client(url).login('superuser')))) {
    t.test(`no text causes a fault: ${place} (${kind})`, async (t) => {
      const check = async (value: string) => {
        const { status } = await send(...request(value));
        if (status >= 500) throw new Error(`${status} for ${JSON.stringify(value.slice(0, 80))}`);
      };
      // Checks each of these once, then random text.
      for (const value of TRICKY) await check(value);
      const details = await fc.check(fc.asyncProperty(text, check), options<[string]>(runs));
      t.notOk(details.failed, told(details));
    });
  }
}
