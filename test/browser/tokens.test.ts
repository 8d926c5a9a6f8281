import t from 'tap';
import { PASSWORD, startFixture } from '../helpers/fixture.js';
import { accessibilityFaults, logIn, startChromium, visit } from '../helpers/chromium.js';
import { send } from '../helpers/http.js';
import { nightly } from '../helpers/nightly.js';
import { until } from '../helpers/until.js';

const { url, create, login } = await startFixture(t);
const browser = await startChromium(t);
const PAGE = `${url}/_latchkey/`;
const DAY = 86_400_000;

/** Opens the page and logs in. */
async function enter(t: Parameters<typeof visit>[0], user: string, options = {}) {
  const visited = await visit(t, browser, PAGE, options);
  await logIn(visited.page, user, PASSWORD);
  return visited;
}

t.test('a superuser creates a token: scope, service, expiry, password; the secret is shown once', async (t) => {
  const { page, faults, requested } = await enter(t, 'superuser', { permissions: ['clipboard-read', 'clipboard-write'] });
  await page.getByRole('heading', { name: 'No tokens yet' }).waitFor();
  t.same(await accessibilityFaults(page), [], 'empty list');
  await page.getByRole('link', { name: 'Create token' }).click();
  const heading = page.getByRole('heading', { name: 'Create a token' });
  await heading.waitFor();
  t.ok(await page.evaluate('document.activeElement.tagName === "H1"'), 'the focus is at the start of the view');

  await page.getByRole('button', { name: 'Create token' }).click();
  t.equal(await page.getByLabel('Name', { exact: true }).getAttribute('aria-invalid'), 'true');
  await page.getByText('Choose what the token may do.').waitFor();
  await page.getByText('Enter your password.').waitFor();
  t.equal(await page.evaluate('document.activeElement.name'), 'name', 'the focus is on the first error');
  t.same(await accessibilityFaults(page), [], 'form with errors');

  await page.getByLabel('Name', { exact: true }).fill('deploy from CI');
  t.equal(await page.getByLabel('Name', { exact: true }).getAttribute('aria-invalid'), null, 'a corrected field has no error any more');
  t.equal(await page.evaluate('document.activeElement.name'), 'name', 'and keeps the focus');
  await page.getByRole('checkbox', { name: /^Purge selected/ }).check();
  t.equal(await page.getByText('Choose what the token may do.').count(), 0);
  t.equal(await page.getByText('Enter your password.').count(), 1, 'the others stay');
  await page.getByRole('radio', { name: /^Only some services/ }).check();
  await page.getByRole('button', { name: 'Create token' }).click();
  await page.getByText('Choose at least one service, or all services.').waitFor();
  await page.getByRole('checkbox', { name: /^shop/ }).check();
  await page.getByLabel('Expires').selectOption('On a date…');
  await page.getByLabel('Last day').fill('2020-01-01');
  await page.getByLabel('Password').fill('wrong');
  await page.getByRole('button', { name: 'Create token' }).click();
  t.equal(await page.getByLabel('Last day').getAttribute('aria-invalid'), 'true');
  await page.getByLabel('Expires').selectOption('30 days');
  await page.getByRole('button', { name: 'Create token' }).click();
  await page.getByRole('alert').getByText('The password is wrong.').waitFor();
  t.equal(await page.getByLabel('Password').inputValue(), '', 'a wrong password is not kept');
  await page.getByLabel('Password').fill(PASSWORD);
  await page.getByRole('button', { name: 'Create token' }).click();

  const secret = await page.getByLabel('Secret', { exact: true }).inputValue();
  t.match(secret, /^lk[0-9A-Za-z]{38}$/);
  t.same(await accessibilityFaults(page), [], 'secret');
  await page.emulateMedia({ media: 'print' });
  t.notOk(await page.getByLabel('Secret', { exact: true }).isVisible(), 'a print-out has no secret');
  await page.emulateMedia({ media: 'screen' });
  await page.getByRole('button', { name: 'Copy the secret' }).click();
  await page.getByRole('status').getByText('The secret was copied.').waitFor();
  t.equal(await page.evaluate('navigator.clipboard.readText()'), secret);
  const curl = await page.getByLabel('Use it in a shell').inputValue();
  t.equal(curl, `curl -H 'Service-Key: ${secret}' ${url}/tokens/self`);
  const self = await send(url, '/tokens/self', { headers: { 'Service-Key': secret } });
  t.match(self.json, { name: 'deploy from CI', scopes: ['purge_select'], services: ['SVC2'] });
  t.ok(Math.abs(Date.parse(self.json.expires_at) - Date.now() - 30 * DAY) < 60_000);

  await page.getByRole('button', { name: 'I have stored it' }).click();
  await page.getByRole('row', { name: /deploy from CI/ }).waitFor();
  await page.goBack();
  await heading.waitFor();
  t.notOk((await page.content()).includes(secret), 'gone from the document, also after "back"');
  const kept = await page.evaluate<string>('JSON.stringify([localStorage, sessionStorage, history.state, location.href, document.cookie])');
  t.notOk(kept.includes(secret) || kept.includes(PASSWORD), kept);
  t.notOk(requested.some((address) => address.includes(secret) || address.includes('password')));
  t.ok(requested.every((address) => address.startsWith(url)), 'no other host');
  t.same(faults, []);
}); // prettier-ignore

t.test('leaving with an unsaved secret asks', nightly, async (t) => {
  const { page, faults } = await enter(t, 'engineer');
  const asked: string[] = [];
  let leave = false;
  page.on('dialog', (dialog) => {
    asked.push(dialog.type());
    void (leave ? dialog.accept() : dialog.dismiss());
  });
  await page.getByRole('link', { name: 'Create token' }).click();
  await page.getByText('Your role cannot list tokens, or revoke them here later.').waitFor();
  await page.getByLabel('Name', { exact: true }).fill('kept');
  await page.getByRole('checkbox', { name: /^Read only/ }).check();
  await page.getByLabel('Password').fill(PASSWORD);
  await page.getByRole('button', { name: 'Create token' }).click();
  const secret = page.getByLabel('Secret', { exact: true });
  await secret.waitFor();
  await page.getByRole('link', { name: 'Sessions' }).click();
  await page.getByRole('button', { name: 'Sign out' }).click();
  t.same(asked, ['confirm', 'confirm']);
  t.match(await secret.inputValue(), /^lk/, 'it is still there');
  t.ok(page.url().endsWith('#/tokens/new'));
  await page.close({ runBeforeUnload: true });
  await until(() => asked.length > 2, 'the page asks');
  t.same(asked, ['confirm', 'confirm', 'beforeunload']);
  t.notOk(page.isClosed());
  leave = true;
  await page.getByRole('link', { name: 'Sessions' }).click();
  await page.getByRole('heading', { name: 'Sessions' }).waitFor();
  await page.getByRole('button', { name: 'Sign out' }).click();
  await page.getByText('You are signed out.').waitFor();
  t.equal(asked.length, 4, 'no question any more');

  await logIn(page, 'engineer', PASSWORD);
  await page.getByRole('link', { name: 'My tokens' }).click();
  await page.getByRole('link', { name: 'Create token' }).click();
  await page.getByLabel('Name', { exact: true }).fill('left behind');
  await page.getByRole('checkbox', { name: /^Read only/ }).check();
  await page.getByLabel('Password').fill(PASSWORD);
  let proceed: () => Promise<void> = () => Promise.resolve();
  await page.route('**/tokens', (route) => {
    proceed = () => route.continue();
  });
  await page.getByRole('button', { name: 'Create token' }).click();
  await page.getByRole('button', { name: 'Creating…' }).waitFor();
  await page.getByRole('link', { name: 'Sessions' }).click();
  await page.getByRole('heading', { name: 'Sessions' }).waitFor();
  t.equal(asked.length, 5, 'a secret that is about to be shown would be lost as well');
  await proceed();
  await page.getByRole('status').getByText('The token left behind was created after you left').waitFor();
  await page.getByRole('link', { name: 'My tokens' }).click();
  await page.getByRole('heading', { name: 'My tokens' }).waitFor();
  t.equal(asked.length, 5, 'nothing is left to lose');
  t.same(faults, []);
}); // prettier-ignore

t.test('duplicate names are marked, and their buttons include the id', nightly, async (t) => {
  const [first, second] = [await create('superuser', { name: 'same' }), await create('superuser', { name: 'same' })];
  const { page, faults } = await enter(t, 'superuser');
  await page.getByRole('row', { name: /same/ }).first().waitFor();
  t.equal(await page.getByText('2 with this name').count(), 2);
  t.same(await accessibilityFaults(page), []);
  t.equal(await page.getByRole('button', { name: `Revoke same, id ${second.json.id}` }).count(), 1);
  await page.getByRole('button', { name: `Revoke same, id ${first.json.id}` }).click();
  t.match(await page.getByRole('dialog').textContent(), first.json.id);
  await page.getByRole('button', { name: 'Revoke token' }).click();
  await page.getByRole('status').getByText('The token same was revoked.').waitFor();
  t.equal(await page.getByText('with this name').count(), 0, 'the last one has its name only');

  await page.getByRole('button', { name: 'Sign out' }).click();
  await page.getByRole('button', { name: 'Log in' }).waitFor();
  t.notMatch(await page.content(), 'is revoked', 'an announcement does not outlive its session');
  await logIn(page, 'billing', PASSWORD);
  await page.getByRole('heading', { name: 'My tokens' }).waitFor();
  t.notMatch(await page.content(), 'is revoked');
  t.same(faults, []);
}); // prettier-ignore

t.test('the list: wording, last use, marks, filter; times in the local time zone', async (t) => {
  const at = (ms: number) => ({ expires_at: new Date(Date.now() + ms).toISOString() });
  await create('billing', { name: 'zeta', scope: 'global:read', ...at(3 * DAY) });
  await create('billing', { name: 'alpha', scope: 'purge_select purge_all', service_id: 'SVC1', ...at(90 * DAY) });
  const { json: short } = await create('billing', { name: 'short', ...at(4_000) });
  const { json: used } = await create('billing', { name: 'used' });
  await send(url, '/service/S/x', { headers: { 'Service-Key': used.access_token, 'User-Agent': 'curl/8.5.0' } });
  await new Promise((wait) => setTimeout(wait, Math.max(0, Date.parse(short.expires_at) - Date.now()) + 100));

  const { page, faults } = await enter(t, 'billing');
  const row = (name: string) => page.getByRole('row', { name: new RegExp(`^${name}`) });
  const names = () => page.getByRole('rowheader').locator('.name').allTextContents();
  await row('zeta').waitFor();
  t.match(await row('zeta').textContent(), /Read only.*All services.*Not used yet.*Expires in 2 days/);
  t.match(await row('alpha').textContent(), /Purge selected, Purge all.*www/);
  t.match(await row('short').textContent(), /Expired/);
  t.match(await row('used').textContent(), /127\.0\.0\.1 · curl 8\.5\.0.*Never/);
  const time = row('used').locator('time').first();
  const iso = (await time.getAttribute('datetime')) ?? '';
  const tokyo = new Date(iso).toLocaleTimeString('en-GB', { timeZone: 'Asia/Tokyo', hour: '2-digit', minute: '2-digit' });
  t.match(await time.textContent(), tokyo);
  t.match(await time.getAttribute('title'), `${iso.slice(0, 10)} ${iso.slice(11, 19)} UTC`);
  t.same(await accessibilityFaults(page), []);

  await page.getByLabel('Filter tokens').fill('PURGE');
  t.same(await names(), ['alpha']);
  await page.getByRole('status').getByText('1 of 4 tokens').waitFor();
  await page.getByLabel('Filter tokens').fill('nothing like it');
  await page.getByRole('heading', { name: 'No matching tokens' }).waitFor();
  await page.getByRole('button', { name: 'Show all' }).click();
  t.equal((await names()).length, 4);

  await page.getByRole('link', { name: 'Organisation' }).click();
  await page.getByRole('heading', { name: 'Tokens of the organisation' }).waitFor();
  await page.getByRole('row', { name: /deploy from CI.*superuser/ }).waitFor();
  t.equal(await page.getByRole('button', { name: 'Revoke deploy from CI' }).count(), 0, 'billing can read only');
  t.equal(await page.getByRole('button', { name: 'Revoke zeta' }).count(), 1, 'except its own');
  t.same(await accessibilityFaults(page), []);
  t.same(faults, []);
}); // prettier-ignore

t.test('revokes a token after a question; one that was revoked elsewhere is not an error', async (t) => {
  const { json: first } = await create('billing', { name: 'to revoke' });
  const { json: second } = await create('billing', { name: 'revoked elsewhere' });
  await send(url, '/service/S/x', { headers: { 'Service-Key': first.access_token, 'User-Agent': 'deploybot/2' } });
  const { page, faults } = await enter(t, 'superuser');
  await page.getByRole('link', { name: 'Organisation' }).click();
  const button = page.getByRole('button', { name: 'Revoke to revoke' });
  await button.click();
  const dialog = page.getByRole('dialog', { name: 'Revoke to revoke?' });
  t.match(await dialog.textContent(), /It was last used just now.*Owner.*billing.*Last used.*127\.0\.0\.1 · deploybot 2/);
  t.same(await accessibilityFaults(page), []);
  await page.keyboard.press('Escape');
  t.equal(await dialog.count(), 0);
  t.equal(await page.evaluate('document.activeElement.ariaLabel'), 'Revoke to revoke', 'the focus returns');
  await page.keyboard.press('Enter');
  let fail: (() => Promise<void>) | undefined;
  await page.route('**/tokens/*', (route) => {
    fail = () => route.fulfill({ status: 503, json: {} });
  });
  await page.getByRole('button', { name: 'Revoke token' }).click();
  for (let i = 0; i < 3; i++) await page.keyboard.press('Escape');
  await until(() => fail !== undefined, 'the request');
  await fail?.();
  await dialog.getByRole('alert').getByText('The server cannot do this now.').waitFor();
  await page.unroute('**/tokens/*');
  await page.getByRole('button', { name: 'Revoke token' }).click();
  await page.getByRole('status').getByText('The token to revoke was revoked.').waitFor();
  t.equal(await button.count(), 0);
  t.equal((await send(url, '/tokens/self', { headers: { 'Service-Key': first.access_token } })).status, 401);

  await page.getByRole('button', { name: 'Revoke revoked elsewhere' }).click();
  const cookie = await login('superuser');
  await send(url, `/tokens/${second.id}`, { method: 'DELETE', headers: { Cookie: cookie } });
  await page.getByRole('button', { name: 'Revoke token' }).click();
  await page.getByRole('status').getByText('was already revoked elsewhere').waitFor();
  t.equal(await page.getByRole('button', { name: 'Revoke revoked elsewhere' }).count(), 0);
  t.same(faults, []);
}); // prettier-ignore

t.test('rotates a token: shows the last use of both; revoking the old one ends both', async (t) => {
  const params = new URLSearchParams({ name: 'rotated', scope: 'purge_all purge_select', 'services[]': 'SVC1' });
  const { json: old } = await create('superuser', params);
  const use = (key: string) => send(url, '/purge/x', { method: 'POST', headers: { 'Service-Key': key, 'User-Agent': 'purger/1' } });
  await use(old.access_token);
  const { page, faults } = await enter(t, 'superuser');
  await page.getByRole('button', { name: 'Rotate rotated' }).click();
  const dialog = page.getByRole('dialog', { name: 'Rotate rotated' });
  await dialog.waitFor();
  t.same(await accessibilityFaults(page), []);
  t.equal(await page.getByLabel('The old token ends').inputValue(), '86400', 'the configured default');
  await page.getByLabel('The old token ends').selectOption('In 1 hour');
  await page.getByRole('button', { name: 'Create the replacement' }).click();
  const secret = await dialog.getByLabel('Secret', { exact: true }).inputValue();
  t.same(await accessibilityFaults(page), []);
  const asked: string[] = [];
  page.once('dialog', (question) => {
    asked.push(question.message());
    void question.dismiss();
  });
  await page.keyboard.press('Escape');
  t.match(asked, [/shown only once/], 'the secret is not lost without a question');
  await page.getByRole('button', { name: 'I have stored it' }).click();
  await dialog.getByText('Not used yet').waitFor();
  t.notOk((await page.content()).includes(secret));
  t.same(await accessibilityFaults(page), []);
  const replacement = (await send(url, '/tokens/self', { headers: { 'Service-Key': secret } })).json;
  t.match(replacement, { name: 'rotated', scopes: ['purge_all', 'purge_select'], services: ['SVC1'], predecessor_id: old.id });
  // Requested with a session, so it is not a use of the old token.
  const ends = (await send(url, `/tokens/${old.id}`, { headers: { Cookie: await login('superuser') } })).json.expires_at;
  t.ok(Math.abs(Date.parse(ends) - Date.now() - 3_600_000) < 60_000, `the old one expires in an hour: ${ends}`);
  await dialog.getByText('The old token ends').waitFor();
  await page.getByRole('button', { name: 'Check again' }).click();
  await until(async () => (await dialog.getByText('Not used yet').count()) === 0, 'the first use of the new token');
  await page.getByRole('button', { name: 'Close' }).click();
  await page.getByRole('button', { name: `Rotate rotated, id ${old.id}` }).click();
  await page.getByText('a token can be rotated once').waitFor();
  t.equal(await page.getByRole('button', { name: 'Create the replacement' }).count(), 0);

  await page.getByRole('button', { name: 'Close' }).click();
  await page.getByRole('button', { name: `Revoke rotated, id ${old.id}` }).click();
  await page.getByRole('button', { name: 'Revoke token' }).click();
  await page.getByRole('status').getByText('The token rotated was revoked, with the token that replaced it.').waitFor();
  await until(async () => (await page.getByRole('button', { name: /^Revoke rotated/ }).count()) === 0, 'both are gone from the list');
  for (const key of [old.access_token, secret]) t.equal((await use(key)).status, 401);
  t.same(faults, []);
}); // prettier-ignore

t.test('1,000 tokens: shows fifty, more on demand, and finds the others by filter', nightly, async (t) => {
  const many = Array.from({ length: 1_000 }, (_, i) => ({
    id: `id${i}`, user_id: 'superuser', name: `token ${i}`, scopes: ['global'], services: [], expires_at: null,
    created_at: new Date(Date.now() - (1_000 - i) * 60_000).toISOString(), last_seen_at: null, ip: null, user_agent: null,
  }));
  const { page } = await visit(t, browser, PAGE);
  await page.route('**/tokens', (route) => route.fulfill({ json: many }));
  await logIn(page, 'superuser', PASSWORD);
  await page.getByRole('row', { name: /^token 950\b/ }).waitFor();
  t.equal(await page.getByRole('rowheader').count(), 50);
  await page.getByText('50 of 1000 shown').waitFor();
  await page.getByRole('button', { name: 'Show more' }).click();
  t.equal(await page.getByRole('rowheader').count(), 100);
  await page.getByRole('status').getByText('100 of 1000 tokens are shown.').waitFor();
  await page.getByLabel('Filter tokens').fill('token 777');
  t.equal(await page.getByRole('rowheader').count(), 1);
}); // prettier-ignore

t.test('whoever may revoke a token can set its limits, suspend and resume it', async (t) => {
  const { json } = await create('billing', { name: 'limited' });
  const key = { headers: { 'Service-Key': json.access_token as string } };
  const status = async () => (await send(url, '/tokens/self', key)).status;
  const { page, faults } = await enter(t, 'superuser');
  await page.getByRole('link', { name: 'Organisation' }).click();
  const row = page.getByRole('row', { name: /limited/ });
  const open = () => page.getByRole('button', { name: 'Limits of limited' }).click();
  const dialog = page.getByRole('dialog', { name: 'Limits of limited' });
  await open();
  t.match(await dialog.textContent(), json.id);
  t.same(await accessibilityFaults(page), []);
  await dialog.getByLabel('Request rate').fill('600');
  await dialog.getByLabel('Addresses').fill('127.0.0.0/8, 192.0.2.7');
  await dialog.getByRole('button', { name: 'Save limits' }).click();
  await dialog.getByRole('alert').getByText(/rate must be a rate like/).waitFor();
  t.equal(await dialog.getByLabel('Addresses').inputValue(), '127.0.0.0/8, 192.0.2.7', 'the input is kept');
  t.same(await accessibilityFaults(page), [], 'with an error');
  await dialog.getByLabel('Request rate').fill('600/1m');
  await dialog.getByRole('button', { name: 'Save limits' }).click();
  await page.getByRole('status').getByText('The limits of limited were saved.').waitFor();
  t.match(await row.textContent(), /600\/1m.*2 addresses/);
  t.match((await send(url, '/tokens/self', key)).json, { rate: '600/1m', addresses: ['127.0.0.0/8', '192.0.2.7'] });

  await open();
  await dialog.getByRole('button', { name: 'Suspend token' }).click();
  await page.getByRole('status').getByText('The token limited is suspended: it is refused until you resume it.').waitFor();
  t.match(await row.textContent(), /Suspended.*600\/1m/);
  t.equal(await status(), 401);
  await open();
  await dialog.getByRole('button', { name: 'Resume token' }).click();
  await page.getByRole('status').getByText('The token limited is accepted again.').waitFor();
  t.equal(await status(), 200);
  await open();
  await dialog.getByLabel('Request rate').fill('');
  await dialog.getByLabel('Addresses').fill(' ');
  await dialog.getByRole('button', { name: 'Save limits' }).click();
  await page.getByRole('status').getByText('The limits of limited were saved.').waitFor();
  t.notMatch(await row.textContent(), /600\/1m|addresses/);
  t.notHas((await send(url, '/tokens/self', key)).json, { rate: String });
  await open();
  await send(url, '/tokens/self', { method: 'DELETE', ...key });
  await dialog.getByRole('button', { name: 'Save limits' }).click();
  await page.getByRole('status').getByText('The token limited was revoked elsewhere.').waitFor();
  t.equal(await row.count(), 0);

  await page.getByRole('button', { name: 'Sign out' }).click();
  await logIn(page, 'billing', PASSWORD);
  await page.getByRole('link', { name: 'Organisation' }).click();
  await page.getByRole('heading', { name: 'Tokens of the organisation' }).waitFor();
  await create('superuser', { name: 'untouched' });
  await page.reload();
  await page.getByRole('row', { name: /untouched/ }).waitFor();
  t.equal(await page.getByRole('button', { name: 'Limits of untouched' }).count(), 0, 'a user who may not revoke it cannot set limits');
  t.same(faults, []);
}); // prettier-ignore

t.test(
  'marks an expiry as early as the configuration warns of it, by the clock of the server',
  nightly,
  async (t) => {
    const warned = await startFixture(t, { tokens: { warn_before: '20d', max_lifetime: '90d' } });
    const inDays = (days: number) => new Date(Date.now() + days * DAY).toISOString();
    await warned.create('superuser', { name: 'near', expires_at: inDays(15) });
    await warned.create('superuser', { name: 'far', expires_at: inDays(25) });
    const { page, faults } = await visit(t, browser, `${warned.url}/_latchkey/`);
    await logIn(page, 'superuser', PASSWORD);
    await page.getByRole('row', { name: /near/ }).getByText('Expires in 14 days').waitFor();
    t.equal(
      await page
        .getByRole('row', { name: /far/ })
        .getByText(/Expires in/)
        .count(),
      0,
    );
    await page.clock.setFixedTime(Date.now() + 10 * DAY);
    await page.reload();
    await page.getByRole('row', { name: /near/ }).getByText('Expires in 14 days').waitFor();
    await page.getByRole('link', { name: 'Create token' }).click();
    await page.getByLabel('Name', { exact: true }).fill('as long as is allowed');
    await page.getByRole('checkbox', { name: /^Read only/ }).check();
    t.equal(await page.getByLabel('Expires').inputValue(), '90');
    await page.getByLabel('Password', { exact: true }).fill(PASSWORD);
    await page.getByRole('button', { name: 'Create token' }).click();
    await page.getByRole('heading', { name: 'The token is ready' }).waitFor();
    t.same(faults, []);
  },
);
