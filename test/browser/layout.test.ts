import type { Page } from 'playwright-core';
import t from 'tap';
import { PASSWORD, startFixture } from '../helpers/fixture.js';
import { accessibilityFaults, logIn, startChromium, visit } from '../helpers/chromium.js';
import { EVERY_CASE } from '../helpers/nightly.js';

const { url, create } = await startFixture(t);
const browser = await startChromium(t);
const PAGE = `${url}/_latchkey/`;
const long = 'a-name-of-one-long-word-'.repeat(10);
const addresses = '2001:0db8:0000:0000:0000:0000:0000:0000/128';
const soon = new Date(Date.now() + 86_400_000).toISOString();
await create('superuser', { name: long, expires_at: soon, addresses });
await create('superuser', { name: 'plain', scope: 'purge_all', service_id: 'SVC1' });

const WIDTHS = EVERY_CASE ? [320, 390, 700, 1280, 1920] : [320, 700, 1280];

/** Gives everything that an organisation names itself a name of one long word. */
async function lengthenNames(page: Page): Promise<void> {
  await page.route('**/_latchkey/session', async (route) => {
    const response = await route.fetch();
    if (!response.ok()) return route.fulfill({ response });
    const caller = await response.json();
    const scope = { ...caller.scopes[0], name: long, title: long, description: long };
    const service = { id: 'S'.repeat(64), name: long };
    return route.fulfill({
      response,
      json: {
        ...caller,
        customer: { ...caller.customer, name: long },
        scopes: [...caller.scopes, scope],
        services: [...caller.services, service],
      },
    });
  });
}

for (const colorScheme of EVERY_CASE ? (['light', 'dark'] as const) : (['light'] as const)) {
  t.test(`${colorScheme}: every view fits every width, and is accessible at a narrow and a wide one`, async (t) => {
    const { page, faults } = await visit(t, browser, PAGE, { colorScheme, reducedMotion: 'reduce' });
    const look = async (name: string) => {
      for (const width of WIDTHS) {
        await page.setViewportSize({ width, height: 800 });
        const overflow = () => page.evaluate<number>('document.documentElement.scrollWidth - document.documentElement.clientWidth');
        t.ok((await overflow()) <= 0, `${name} at ${width}: ${await overflow()} px too wide`);
if (width === 320) {
          t.equal(await page.evaluate('document.documentElement.style.fontSize = "200%", getComputedStyle(document.body).fontSize'), '30px', 'text follows the size that the browser is set to');
t.ok((await overflow()) <= 0, `${name} at 200 %: ${await overflow()} px too wide`);
          await page.evaluate('document.documentElement.style.fontSize = ""');
        }
        if (width === 320 || width === 1280) t.same(await accessibilityFaults(page), [], `${name} at ${width}`);
      }
    };
    await lengthenNames(page);
    await page.getByRole('button', { name: 'Log in' }).waitFor();
    await look('log-in');
    await logIn(page, 'superuser', PASSWORD);
    await page.setViewportSize({ width: 390, height: 800 });
    for (const shown of ['superuser', 'Sign out'])
      await page.getByRole('banner').getByText(shown).first().waitFor({ state: 'visible' });
    for (const [hash, heading] of [['tokens', 'My tokens'], ['organisation', 'Tokens of the organisation'], ['tokens/new', 'Create a token'], ['sessions', 'Sessions']] as const) {
      await page.goto(`${PAGE}#/${hash}`);
      await page.getByRole('heading', { name: heading, level: 1 }).waitFor();
      if (hash === 'tokens/new') await page.getByRole('radio', { name: /^Only some/ }).check();
      await look(heading);
    }
    await page.goto(`${PAGE}#/tokens`);
    await page.setViewportSize({ width: 1280, height: 800 });
    await page.getByRole('button', { name: `Revoke ${long}` }).waitFor();
    const tops = await page.evaluate<number[]>('[...document.querySelector(".actions").children].map((button) => button.offsetTop)');
    t.same([tops.length, new Set(tops).size], [3, 1], 'the buttons of a row are side by side');
    await page.getByRole('button', { name: `Revoke ${long}` }).click();
    await look('dialog');
    await page.getByRole('button', { name: 'Keep it' }).click();
    await page.getByRole('button', { name: `Limits of ${long}` }).click();
    await look('limits');
    t.equal(await page.evaluate('getComputedStyle(document.querySelector("dialog")).animationName'), 'none', 'no motion');
    await page.emulateMedia({ forcedColors: 'active' });
    const style = (property: string) => page.evaluate<string[]>(`[...document.querySelectorAll("nav a, .mark")].map((each) => getComputedStyle(each).${property})`);
    const [here, ...others] = (await style('borderBottomColor')).slice(0, 3);
    t.ok(others.length === 2 && !others.includes(here ?? ''), 'with colours of the system, the current view is still marked');
    t.equal((await style('borderBottomStyle')).at(-1), 'solid', 'and so are tokens');
    await page.keyboard.press('Escape');
    await page.getByRole('button', { name: 'Rotate plain' }).click();
    await look('rotation');
    const gap = () => page.evaluate<number>('document.querySelector("form .field").getBoundingClientRect().top - document.querySelector("form .facts").getBoundingClientRect().bottom');
    await page.locator('form .field').waitFor();
    t.ok((await gap()) >= 16, 'a field keeps its distance from the facts above it');
    t.same(faults, []);
  }); // prettier-ignore
}

t.test('keyboard only: log in, go to the list, revoke a token, sign out', async (t) => {
  const { page } = await visit(t, browser, PAGE);
  const press = (...keys: string[]) => keys.reduce((last, key) => last.then(() => page.keyboard.press(key)), Promise.resolve());
  const focused = () => page.evaluate<string>('(document.activeElement.ariaLabel ?? document.activeElement.textContent).trim()');
  await page.getByRole('button', { name: 'Log in' }).waitFor();
  await page.keyboard.type('superuser@example.com');
  await press('Tab');
  await page.keyboard.type(PASSWORD);
  await press('Enter');
  await page.getByRole('row', { name: /^plain/ }).waitFor();
  t.equal(await focused(), 'My tokens');
  await press('Shift+Tab', 'Shift+Tab', 'Shift+Tab', 'Shift+Tab', 'Shift+Tab');
  t.equal(await focused(), 'Skip to the content');
  t.equal(await page.evaluate('getComputedStyle(document.activeElement).clipPath'), 'none', 'it is visible');
  await press('Enter', 'Tab');
  t.equal(await focused(), 'Create token');
  for (let i = 0; i < 20 && (await focused()) !== 'Revoke plain'; i++) {
    await press('Tab');
    const outline = await page.evaluate('getComputedStyle(document.activeElement).outlineStyle');
    t.equal(outline, 'solid', `the focus is visible on ${await focused()}`);
  }
  t.equal(await focused(), 'Revoke plain');
  await press('Enter');
  t.equal(await focused(), 'Keep it');
  await press('Tab', 'Enter');
  await page.getByRole('status').getByText('The token plain was revoked.').waitFor();
  await page.locator('h1:focus').waitFor();
  t.equal(await focused(), 'My tokens', 'the focus is not lost with the row');
  await press('Shift+Tab');
  t.equal(await focused(), 'Sign out');
  await press('Enter');
  await page.getByText('You are signed out.').waitFor();
}); // prettier-ignore
