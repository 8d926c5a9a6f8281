import t from 'tap';
import type { Page } from 'playwright-core';
import { logIn, startChromium } from '../helpers/chromium.js';
import { PASSWORD } from '../helpers/fixture.js';
import { startFront } from '../helpers/front.js';
import { send, serveHttp } from '../helpers/http.js';

/* Logins through the examples of proxies that ask, and in several tabs. */

const { url: app } = await serveHttp(t, (req, res) => {
  res.setHeader('Content-Type', 'text/html');
  res.end(`<title>App</title><h1>${String(req.url).replaceAll('&', '&amp;')}</h1>`);
});
const browser = await startChromium(t);
const DEEP = '/orders?from=2026-01&to=2026-02&q=a%26b#/deep';

for (const proxy of ['nginx', 'caddy'] as const) {
  t.test(`${proxy} sends browsers to the login, and tabs follow it`, async (t) => {
    const { url } = await startFront(t, proxy, app);
    const program = await send(url, '/orders');
    t.match(program, { status: 401, headers: { 'www-authenticate': /^Basic .*Bearer / } });
    const context = await browser.newContext();
    t.teardown(() => context.close());
    const [first, second, third] = [
      await context.newPage(),
      await context.newPage(),
      await context.newPage(),
    ];
    const isAt = async (page: Page, target: string) => {
      await page.waitForURL(`${url}${target}`);
      t.equal(await page.getByRole('heading').textContent(), target.split('#', 1)[0], target);
    };
    await first.goto(url + DEEP);
    await second.goto(`${url}/orders?x=%2Fa+b`);
    await third.goto(`${url}/third`);
    await first.reload();
    await logIn(first, 'ada', PASSWORD);
    await isAt(first, DEEP);

    await second.bringToFront();
    await second.evaluate('dispatchEvent(new Event("focus"))');
    await isAt(second, '/orders?x=%2Fa+b');
    await third.reload();
    await isAt(third, '/third');

    const path = encodeURIComponent('/by-link?a=b');
    await third.goto(`${url}/_latchkey/?return_to=${path}`);
    await isAt(third, '/by-link?a=b');
    await third.goto(`${url}/_latchkey/?return_to=${encodeURIComponent(`${url}/absolute`)}`);
    await isAt(third, '/absolute');
    await third.goto(`${url}/_latchkey/?return_to=${encodeURIComponent('//evil.example/')}`);
    await third.getByRole('heading', { name: 'My tokens' }).waitFor();
    t.equal(third.url(), `${url}/_latchkey/`, 'nothing else is kept');
  });
}

t.test('somebody whose session the proxy hides is not sent back and forth', async (t) => {
  const { url } = await startFront(t, 'nginx', app, [
    'nginx.conf',
    /(proxy_set_header X-Original-Method)/,
    "proxy_set_header Cookie ''; $1",
  ]);
  const page = await browser.newPage();
  t.teardown(() => page.close());
  await page.goto(`${url}/_latchkey/`);
  await logIn(page, 'ada', PASSWORD);
  await page.getByRole('heading', { name: 'My tokens' }).waitFor();
  await page.goto(`${url}/a`);
  await page.getByRole('heading', { name: 'My tokens' }).waitFor();
  t.equal(page.url(), `${url}/_latchkey/?return_to=%2Fa`);
});
