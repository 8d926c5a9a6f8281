import type { Page } from 'playwright-core';
import t from 'tap';
import { startChromium } from '../helpers/chromium.js';
import { directory, client } from '../helpers/fixture.js';
import { send, serveHttp, startUpstream } from '../helpers/http.js';
import { start, temporaryFolder, writeConfig } from '../helpers/latchkey.js';
import { nightly } from '../helpers/nightly.js';

/** A page of a separate origin. */
async function startApp(): Promise<string> {
  const { url } = await serveHttp(t, (_req, res) => {
    res.writeHead(200, { 'Content-Type': 'text/html' }).end('<!doctype html><title>app</title>');
  });
  return url;
}

const [app, other] = [await startApp(), await startApp()];
const upstream = await startUpstream(t);
const folder = temporaryFolder(t);
const config = {
  upstream: upstream.url,
  cors: { origins: [app], headers: ['Service-Key', 'Content-Type'], expose: ['X-Request-Id'] },
  routes: [
    { path: '/all', auth: 'none', cors: { origins: '*' } },
    { path: '/off', auth: 'none', cors: false },
    { path: '/cookies', action: 'api', cors: { origins: [app], credentials: true } },
    { path: '/frames', auth: 'none', cors: { origins: ['null'] } },
  ],
};
const configFile = writeConfig(folder, config, await directory());
const server = await start(t, configFile);
const { token } = client(server.url);
const key = await token('superuser');
const browser = await startChromium(t);

/** Opens a page of an origin, in a separate browser profile. */
async function open(t: { teardown: (fn: () => Promise<void>) => void }, url: string): Promise<Page> {
  const context = await browser.newContext();
  t.teardown(() => context.close());
  const page = await context.newPage();
  await page.goto(url);
  return page;
}

/**
 * What a script of the page sees of a response: the status and a header, or that the browser blocks
 * it.
 */
function fetchOn(page: Page, path: string, options: object = {}): Promise<unknown> {
  return page.evaluate(`
    fetch(${JSON.stringify(server.url + path)}, ${JSON.stringify(options)}).then(
      async (answer) => ({ status: answer.status, id: answer.headers.get('X-Request-Id') !== null, text: await answer.text() }),
      (error) => error.name,
    )`);
}

const KEY = { headers: { 'Service-Key': key } };
const REFUSED = 'TypeError';

t.test('only an allowed page can read responses and refusals', async (t) => {
  const allowed = await open(t, app);
  t.match(await fetchOn(allowed, '/a', KEY), { status: 200, id: true, text: /"target":"\/a"/ });
  t.match(await fetchOn(allowed, '/a', { ...KEY, method: 'DELETE' }), { status: 200 });
  t.match(await fetchOn(allowed, '/a'), { status: 401, id: true, text: /credentials are missing/ });
  t.match(await fetchOn(allowed, '/a', { headers: { 'Service-Key': 'lkwrong' } }), { status: 401 });
  t.match(await fetchOn(allowed, '/tokens/self', KEY), { status: 200, text: /"scope":"global"/ });
  upstream.received.length = 0;
  t.equal(await fetchOn(allowed, '/a', { headers: { 'Service-Key': key, 'X-Other': 'a' } }), REFUSED, 'an unlisted header');
  t.equal(await fetchOn(allowed, '/a', { ...KEY, credentials: 'include' }), REFUSED, 'credentials are disabled');

  const foreign = await open(t, other);
  t.equal(await fetchOn(foreign, '/a', KEY), REFUSED);
  t.equal(await fetchOn(foreign, '/tokens/self', KEY), REFUSED);
  t.equal(await fetchOn(foreign, '/a', { ...KEY, method: 'DELETE' }), REFUSED);
  t.same(upstream.received, [], 'the browser did not send it');
  t.equal(await fetchOn(foreign, '/cookies'), REFUSED);
  t.match(await fetchOn(foreign, '/all'), { status: 200, id: false });
  for (const page of [allowed, foreign]) t.equal(await fetchOn(page, '/off'), REFUSED, 'the upstream sends no CORS fields');
}); // prettier-ignore

t.test('a sandboxed frame has the origin "null", which is allowed where listed', nightly, async (t) => {
  const page = await open(t, app);
  const inFrame = (path: string) =>
    page.evaluate(`new Promise((done) => {
      addEventListener('message', ({ data }) => done(data), { once: true });
      const frame = document.createElement('iframe');
      frame.sandbox = 'allow-scripts';
      frame.srcdoc = "<script>fetch('${server.url}${path}').then((answer) => answer.status, (error) => error.name).then((said) => parent.postMessage(said, '*'))</script>";
      document.body.append(frame);
    })`);
  t.equal(await inFrame('/frames'), 200);
  t.equal(await inFrame('/all'), 200);
  t.equal(await inFrame('/cookies'), REFUSED);
}); // prettier-ignore

t.test('with the session cookie, a page of the same site can read but change nothing', async (t) => {
  const page = await open(t, `${server.url}/_latchkey/`);
  await page.getByLabel('Login name').fill('superuser@example.com');
  await page.getByLabel('Password', { exact: true }).fill('correct horse battery staple');
  await page.getByRole('button', { name: 'Log in' }).click();
  await page.getByRole('heading', { name: 'My tokens' }).waitFor();
  // A site does not include the port, so the cookie is sent.
  await page.goto(app);
  t.match(await fetchOn(page, '/cookies', { credentials: 'include' }), { status: 200 });
  t.match(await fetchOn(page, '/cookies'), { status: 401 });
  t.match(await fetchOn(page, '/cookies', { credentials: 'include', method: 'POST' }), {
    status: 403,
    text: /comes from another origin/,
  });
  t.equal(
    await fetchOn(page, '/tokens', { credentials: 'include' }),
    REFUSED,
    'not where credentials are disabled',
  );
  await page.goto(other);
  t.equal(await fetchOn(page, '/cookies', { credentials: 'include' }), REFUSED);
  await page.goto(app.replace('127.0.0.1', 'localhost'));
  t.equal(
    await fetchOn(page, '/cookies', { credentials: 'include' }),
    REFUSED,
    'another host name is another origin',
  );
});

t.test('the browser caches a preflight for max_age', nightly, async (t) => {
  const page = await open(t, app);
  const preflights = async () => {
    const text = (await send(server.admin, '/metrics')).text;
    return Number(/^latchkey_requests_total\{route="\/",outcome="preflight",status_class="2xx"\} (\d+)/m.exec(text)?.[1] ?? 0);
  };
  await page.waitForTimeout(1_100);
  const before = await preflights();
  for (let i = 0; i < 3; i++) t.match(await fetchOn(page, '/kept', KEY), { status: 200 });
  await page.waitForTimeout(1_100);
  t.equal((await preflights()) - before, 1);
}); // prettier-ignore
