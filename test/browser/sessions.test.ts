import t from 'tap';
import { otpAt, PASSWORD, startFixture } from '../helpers/fixture.js';
import { accessibilityFaults, logIn, startChromium, visit } from '../helpers/chromium.js';
import { send } from '../helpers/http.js';
import { nightly } from '../helpers/nightly.js';

const { url, login, create } = await startFixture(t);
const browser = await startChromium(t);
const PAGE = `${url}/_latchkey/`;
const HALF_MINUTE = 30_000;

t.test('log in: missing input, wrong input and too many attempts', async (t) => {
  const { page, faults } = await visit(t, browser, PAGE);
  const button = page.getByRole('button', { name: 'Log in' });
  await button.waitFor();
  t.equal(await page.evaluate('document.activeElement.name'), 'login');
  t.same(await accessibilityFaults(page), []);
  await button.click();
  await page.getByText('Enter your login name').waitFor();
  await page.getByText('Enter your password.').waitFor();
  t.same(await accessibilityFaults(page), []);
  await logIn(page, 'locked', PASSWORD);
  await page.getByRole('alert').getByText('This account is locked.').waitFor();
  await logIn(page, 'user', 'wrong');
  await page.getByRole('alert').getByText('The login name or the password is wrong.').waitFor();
  t.equal(await page.getByLabel('Password').inputValue(), '');
  const json = { msg: 'Too many requests', detail: 'Too many failed logins; try again later' };
  await page.route('**/login', (route) => route.fulfill({ status: 429, headers: { 'Retry-After': '300' }, json }));
  await logIn(page, 'user', PASSWORD);
  await page.getByRole('alert').getByText('Too many requests. Wait 5 minutes, then try again.').waitFor();
  t.same(faults, []);
}); // prettier-ignore

t.test('two factors: asks for the code only if needed, at login and for a new token', async (t) => {
  const { page, faults } = await visit(t, browser, PAGE);
  await logIn(page, 'twofactor', PASSWORD);
  const otp = page.getByLabel('One-time password');
  await otp.waitFor();
  await page.getByRole('button', { name: 'Log in as someone else' }).click();
  await page.locator('[name=login]:focus').waitFor();
  await logIn(page, 'twofactor', PASSWORD);
  await otp.fill('000000');
  const json = { msg: 'invalid_grant', code: 'invalid_grant' };
  await page.route('**/login', (route) => route.fulfill({ status: 401, json }));
  await page.getByRole('button', { name: 'Continue' }).click();
  await page.getByRole('alert').getByText('The login name or the password is wrong.').waitFor();
  // The password was changed in between, and can be entered again.
  await page.locator('[name=password]:focus').waitFor();
  await page.unroute('**/login');
  await logIn(page, 'twofactor', PASSWORD);
  await otp.waitFor();
  await page.locator('[name=otp]:focus').waitFor();
  t.same(await accessibilityFaults(page), []);
  await otp.fill('000000');
  await page.getByRole('button', { name: 'Continue' }).click();
  await page.getByText('The one-time password is wrong, expired or already used.').waitFor();
  const code = otpAt(Date.now());
  await otp.fill(`${code.slice(0, 3)} ${code.slice(3)}`);
  await page.getByRole('button', { name: 'Continue' }).click();
  await page.getByRole('heading', { name: 'My tokens' }).waitFor();

  await page.getByRole('link', { name: 'Create token' }).click();
  await page.getByLabel('Name', { exact: true }).fill('second factor');
  await page.getByRole('checkbox', { name: /^Read only/ }).check();
  await page.getByLabel('Password', { exact: true }).fill(PASSWORD);
  await otp.fill(code);
  await page.getByRole('button', { name: 'Create token' }).click();
  await page.getByText('The one-time password is wrong, expired or already used.').waitFor();
  // The code of the next time step is already valid.
  await otp.fill(otpAt(Date.now() + HALF_MINUTE));
  await page.getByRole('button', { name: 'Create token' }).click();
  t.match(await page.getByLabel('Secret', { exact: true }).inputValue(), /^lk/);
  t.same(faults, []);
});

t.test('sessions: lists them; ends one, and all others', async (t) => {
  const [phone, tablet] = [await login('user'), await login('user')];
  for (const [cookie, agent] of [[phone, 'curl/8'], [tablet, 'wget/1']] as const) {
    await send(url, '/_latchkey/sessions', { headers: { Cookie: cookie, 'User-Agent': agent } });
  }
  const { page, faults } = await visit(t, browser, PAGE);
  await logIn(page, 'user', PASSWORD);
  await page.getByRole('heading', { name: 'Your role cannot list tokens here' }).waitFor();
  t.same(await accessibilityFaults(page), []);
  t.equal(await page.getByRole('link', { name: 'Organisation' }).count(), 0);
  await page.getByRole('link', { name: 'Sessions' }).click();
  await page.getByText('This session').waitFor();
  t.same(await accessibilityFaults(page), []);
  const ends = page.getByRole('button', { name: /^End the session of/ });
  const before = await ends.count();
  t.ok(before >= 2);
  await ends.first().click();
  await page.getByRole('status').getByText(/^The session of .* was ended\.$/).waitFor();
  t.equal(await ends.count(), before - 1);
  await page.getByRole('button', { name: 'End all others' }).click();
  await page.getByRole('dialog').getByRole('button', { name: 'End all others' }).click();
  await page.getByRole('status').getByText('All other sessions were ended.').waitFor();
  t.equal(await ends.count(), 0);
  for (const cookie of [phone, tablet]) {
    t.equal((await send(url, '/_latchkey/sessions', { headers: { Cookie: cookie } })).status, 401);
  }
  t.same(faults, []);
}); // prettier-ignore

t.test('sign out: ends the session, clears site data, and "back" shows nothing', async (t) => {
  await create('superuser', { name: 'hidden behind the log-in' });
  const { page, faults } = await visit(t, browser, PAGE);
  await logIn(page, 'superuser', PASSWORD);
  await page.getByRole('row', { name: /hidden behind/ }).waitFor();
  const [cookie] = (await page.context().cookies()).filter(({ name }) => name === 'service.session');
  t.match(cookie, { httpOnly: true, sameSite: 'Lax' });
  const answer = page.waitForResponse('**/logout');
  await page.getByRole('button', { name: 'Sign out' }).click();
  t.match(await (await answer).allHeaders(), { 'clear-site-data': /"storage"/ });
  await page.getByText('You are signed out.').waitFor();
  t.equal(
    (await send(url, '/_latchkey/sessions', { headers: { Cookie: `service.session=${cookie?.value}` } }))
      .status,
    401,
  );
  await page.goBack();
  await page.goForward();
  await page.getByRole('button', { name: 'Log in' }).waitFor();
  t.notOk((await page.content()).includes('hidden behind'));
  t.same(faults, []);
});

t.test('an ended session leads to the login, which says why and keeps nothing', async (t) => {
  const { page, faults } = await visit(t, browser, PAGE);
  await logIn(page, 'superuser', PASSWORD);
  await page.getByRole('row', { name: /hidden behind/ }).waitFor();
  await page.getByRole('button', { name: 'Revoke hidden behind the log-in' }).click();
  await send(url, '/_latchkey/sessions', { method: 'DELETE', headers: { Cookie: await login('superuser') } });
  await page.getByRole('button', { name: 'Revoke token' }).click();
  await page.getByRole('status').getByText('Your session has ended').waitFor();
  t.notOk((await page.content()).includes('hidden behind'));
  t.same(await accessibilityFaults(page), []);
  await page.goto(`${PAGE}#/organisation`);
  await logIn(page, 'superuser', PASSWORD);
  await page.getByRole('heading', { name: 'Tokens of the organisation' }).waitFor();
  t.same(faults, [], 'returns to the previous view');
});

t.test(
  'with another user logged in by a second window, the first one shows that user',
  nightly,
  async (t) => {
    const { page } = await visit(t, browser, PAGE);
    await logIn(page, 'superuser', PASSWORD);
    await page.getByRole('row', { name: /hidden behind/ }).waitFor();
    const second = await page.context().newPage();
    await second.goto(PAGE);
    await second.getByRole('button', { name: 'Sign out' }).click();
    await logIn(second, 'other', PASSWORD);
    await second.getByText('No tokens yet').waitFor();
    // Headless pages always have the focus.
    await page.evaluate(() => dispatchEvent(new Event('focus')));
    await page.getByText('No tokens yet').waitFor();
    t.notOk((await page.content()).includes('hidden behind'));
  },
);

t.test('a login returns to a view of the page', nightly, async (t) => {
  const { page } = await visit(t, browser, `${PAGE}?return_to=%2F_latchkey%2F%23%2Fsessions`);
  await logIn(page, 'superuser', PASSWORD);
  await page.getByRole('heading', { name: 'Sessions' }).waitFor();
  t.equal(page.url(), `${PAGE}#/sessions`);
});

t.test('a session that times out clears the screen without further requests', nightly, async (t) => {
  const { page, requested } = await visit(t, browser, PAGE);
  await logIn(page, 'superuser', PASSWORD);
  await page.getByRole('row', { name: /hidden behind/ }).waitFor();
  const before = requested.length;
  await page.clock.setFixedTime(Date.now() + 31 * 60_000);
  await page.getByRole('status').getByText('Your session has ended').waitFor();
  t.notOk((await page.content()).includes('hidden behind'));
  t.equal(requested.length, before);
  // Another tab has used the session in the meantime, so it goes on.
  await page.evaluate(() => dispatchEvent(new Event('focus')));
  await page.getByRole('row', { name: /hidden behind/ }).waitFor();
});

t.test('offline: says so, and continues when the connection is back', nightly, async (t) => {
  const { page, faults } = await visit(t, browser, PAGE);
  await page.getByRole('button', { name: 'Log in' }).waitFor();
  await page.context().setOffline(true);
  await logIn(page, 'superuser', PASSWORD);
  await page.getByRole('alert').getByText('The server did not respond.').waitFor();
  await page.context().setOffline(false);
  await page.getByRole('button', { name: 'Log in' }).click();
  await page.getByRole('row', { name: /hidden behind/ }).waitFor();

  await page.context().setOffline(true);
  await page.getByRole('link', { name: 'Organisation' }).click();
  await page.getByRole('alert').getByText('Check your connection, then try again.').waitFor();
  t.same(await accessibilityFaults(page), []);
  await page.context().setOffline(false);
  await page.getByRole('button', { name: 'Try again' }).click();
  await page.getByRole('row', { name: /hidden behind/ }).waitFor();
  t.equal(await page.getByRole('alert').count(), 0);

  await page.route('**/tokens', (route) => route.fulfill({ body: '<html>Welcome to our Wi-Fi</html>' }));
  await page.getByRole('link', { name: 'My tokens' }).click();
  await page.getByRole('alert').getByText('The server did not respond.').waitFor();
  await page.unroute('**/tokens');
  await page.getByRole('button', { name: 'Try again' }).click();

  await page.getByRole('button', { name: 'Revoke hidden behind the log-in' }).click();
  await page.context().setOffline(true);
  await page.getByRole('button', { name: 'Revoke token' }).click();
  await page.getByRole('dialog').getByRole('alert').waitFor();
  await page.context().setOffline(false);
  await page.getByRole('button', { name: 'Revoke token' }).click();
  await page.getByRole('status').getByText('was revoked.').waitFor();
  t.same(faults, []);
});
