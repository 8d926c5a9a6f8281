import t from 'tap';
import type { Page } from 'playwright-core';
import { accessibilityFaults, startChromium, visit } from '../helpers/chromium.js';
import { directory, startFixture } from '../helpers/fixture.js';
import { send } from '../helpers/http.js';
import { start, temporaryFolder, writeConfig } from '../helpers/latchkey.js';
import { startOidcProvider } from '../helpers/oidc-provider.js';
import { freePort } from '../helpers/free-port.mjs';
import { nightly } from '../helpers/nightly.js';
import { rememberSecret } from '../helpers/secrets.js';

const port = await freePort();
const origin = `http://127.0.0.1:${port}`;
const provider = await startOidcProvider(t, origin);
rememberSecret(provider.client_secret);
// Engineers may create tokens here.
const { url } = await startFixture(t, {
  listen: { host: '127.0.0.1', port },
  on_unauthenticated: 'login',
  login: { oidc: [provider], public_url: origin },
});
const browser = await startChromium(t);
const SHOTS = process.env['SHOTS'];

async function shot(page: Page, name: string): Promise<void> {
  if (SHOTS === undefined) return;
  for (const width of [1280, 390]) {
    await page.setViewportSize({ width, height: 800 });
    await page.screenshot({ path: `${SHOTS}/${name}-${width}.png` });
  }
  await page.setViewportSize({ width: 1280, height: 720 });
}

/** Logs in at the provider, and consents if asked. */
async function logInThere(page: Page, name: string): Promise<void> {
  await page.locator('[name="login"]').fill(name);
  await page.locator('[name="password"]').fill('any');
  await page.getByRole('button', { name: 'Sign-in' }).click();
  await page.waitForURL((at) => at.port === String(port) || /Authorize/.test(at.href) || at.pathname.startsWith('/interaction'));
  const agree = page.getByRole('button', { name: 'Continue' });
  if (new URL(page.url()).port !== String(port) && (await agree.isVisible())) await agree.click();
} // prettier-ignore

const sessionOf = async (page: Page) =>
  (await page.context().cookies(url)).find(({ name }) => name === 'service.session')?.value ?? '';
const isOn = async (session: string) => {
  const { status } = await send(url, '/_latchkey/session', { headers: { Cookie: `service.session=${session}` } });
  return status === 200;
}; // prettier-ignore

t.test('logs in at the provider, returns to the page, creates a token without a password', async (t) => {
  const { page, faults } = await visit(t, browser, `${url}/reports?year=1`);
  const button = page.getByRole('link', { name: 'Company login' });
  await button.waitFor();
  t.equal(new URL(page.url()).search, '?return_to=%2Freports%3Fyear%3D1', 'a reload keeps the target');
  t.same(await accessibilityFaults(page), []);
  await shot(page, 'log-in');
  await button.click();
  await logInThere(page, 'dev-ann');
  await page.waitForURL(`${url}/reports?year=1`);

  await page.goto(`${url}/_latchkey/#/sessions`);
  await page.getByText('Company login').waitFor();
  await shot(page, 'sessions');
  t.same(await accessibilityFaults(page), []);
  const before = await sessionOf(page);

  await page.goto(`${url}/_latchkey/#/tokens/new`);
  await page.getByText('You have no password here.').waitFor();
  t.same(await accessibilityFaults(page), []);
  await shot(page, 'confirm');
  await page.getByRole('link', { name: 'Company login' }).click();
  await page.getByRole('link', { name: 'Cancel' }).click();
  await page.getByRole('alert').getByText('you canceled it').waitFor();
  t.equal(page.url(), `${url}/_latchkey/#/tokens/new`);
  t.same(await accessibilityFaults(page), []);
  await page.getByRole('link', { name: 'Company login' }).click();
  await logInThere(page, 'dev-ann');
  await page.waitForURL(`${url}/_latchkey/#/tokens/new`);
  await page.getByText('You confirmed it at “Company login” just now.').waitFor();
  await shot(page, 'confirmed');
  t.equal(await isOn(before), false, 'a new session');
  await page.getByLabel('Name', { exact: true }).fill('from CI');
  await page.getByRole('checkbox', { name: /^Read only/ }).check();
  await page.getByRole('button', { name: 'Create token' }).click();
  const secret = await page.getByLabel('Secret', { exact: true }).inputValue();
  t.match(await send(url, '/tokens/self', { headers: { 'Service-Key': secret } }), { status: 200, json: { name: 'from CI' } });
  await page.getByRole('button', { name: 'I have stored it' }).click();
  await page.getByText('This page no longer has its secret').waitFor();

  const outdated = '{"msg":"invalid_request","code":"invalid_request","detail":"You have no password"}';
  await page.route('**/tokens', (route) => route.fulfill({ status: 400, body: outdated }));
  await page.goto(`${url}/_latchkey/#/tokens/new`);
  await page.getByLabel('Name', { exact: true }).fill('too late');
  await page.getByRole('checkbox', { name: /^Read only/ }).check();
  await page.getByRole('button', { name: 'Create token' }).click();
  await page.getByRole('alert').getByText('more than five minutes ago').waitFor();
  await page.unroute('**/tokens');

  const session = await sessionOf(page);
  await page.getByRole('button', { name: 'Sign out' }).click();
  await page.getByRole('button', { name: 'Yes, sign me out' }).click();
  await page.waitForURL(`${url}/_latchkey/`);
  t.equal(await isOn(session), false);
  t.same(faults, []);
}); // prettier-ignore

t.test('without a role nobody can log in, and the page says why', async (t) => {
  const { page } = await visit(t, browser, `${url}/_latchkey/`);
  await page.getByRole('link', { name: 'Company login' }).click();
  await logInThere(page, 'guest');
  await page.getByRole('alert').getByText('gives you no role here').waitFor();
  t.same(await accessibilityFaults(page), []);
  await shot(page, 'no-role');
  t.equal(await sessionOf(page), '');
});

t.test('if no user has a password, shows one button per provider and nothing else', nightly, async (t) => {
  const { customers } = await directory();
  const partner = { ...provider, name: 'partner', title: 'Partner login', issuer: 'http://127.0.0.1:1' };
  const config = { upstream: url, login: { oidc: [structuredClone(provider), structuredClone(partner)], public_url: origin } };
  const without = await start(t, writeConfig(temporaryFolder(t), config, { customers }));
  for (const width of [1280, 390]) {
    const { page, faults } = await visit(t, browser, `${without.url}/_latchkey/`, { viewport: { width, height: 800 } });
    await page.getByRole('link', { name: 'Company login' }).waitFor();
    t.equal(await page.getByRole('link', { name: 'Partner login' }).isVisible(), true);
    t.equal(await page.locator('form, input').count(), 0, 'no password form');
    t.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), `nothing is wider than ${width} px`);
    t.same(await accessibilityFaults(page), []);
    await page.getByRole('link', { name: 'Partner login' }).click();
    await page.getByRole('alert').waitFor();
    t.same(faults, []);
  }
}); // prettier-ignore

t.test('a logout at the provider ends the session', nightly, async (t) => {
  const { page } = await visit(t, browser, `${url}/_latchkey/`);
  await page.getByRole('link', { name: 'Company login' }).click();
  await logInThere(page, 'dev-bob');
  await page.getByRole('heading', { name: 'My tokens' }).waitFor();
  const session = await sessionOf(page);
  t.equal(await isOn(session), true);
  await page.goto(`${provider.issuer}/session/end`);
  await page.getByRole('button', { name: 'Yes, sign me out' }).click();
  await page.waitForURL(/session\/end\/success/);
  t.equal(await isOn(session), false);
});
