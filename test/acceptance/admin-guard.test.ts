import t from 'tap';
import { startChromium } from '../helpers/chromium.js';
import { startFixture } from '../helpers/fixture.js';
import { exchange } from '../helpers/exchange.js';
import { freshMetrics, send, startUpstream } from '../helpers/http.js';
import { openRaw } from '../helpers/raw-client.mjs';

const { server } = await startFixture(t, { admin: { port: 0, hosts: ['Metrics.Example.com'] } });
const { admin } = server;
const { port } = new URL(admin);
const PATHS: readonly (readonly [string, string])[] = [
  ['GET', '/metrics'],
  ['GET', '/healthz'],
  ['GET', '/readyz'],
  ['GET', '/-/config'],
  ['HEAD', '/-/config'],
  ['GET', '/nothing'],
  ['POST', '/-/reload'],
];

const OWN = [
  `127.0.0.1:${port}`, '127.0.0.1', '10.1.2.3:9901', '[::1]', `[::1]:${port}`, '[2001:db8::1]:9901', 'localhost', `LOCALHOST:${port}`,
  'latchkey', 'latchkey:9901', 'latchkey.localhost', 'latchkey.monitoring.svc:9901', 'latchkey.monitoring.svc.cluster.local:9901', 'host.docker.internal:9901',
  'metrics.example.com', 'METRICS.example.com:9901',
]; // prettier-ignore
const FOREIGN = [
  'attacker.example', `attacker.example:${port}`, '127.0.0.1.nip.io', '127.0.0.1.attacker.example', 'localhost.attacker.example', 'attacker.localhost.example',
  'metrics.example.com.attacker.example', 'xmetrics.example.com', 'metrics.example.com.', 'attacker.example.', 'localhost.', 'attacker.svc.example', 'svc.example', '0x7f000001', '2130706433',
  '127.1', '0177.0.0.1', 'a.local', '[attacker.example]', '[::1', 'attacker.example@127.0.0.1', '127.0.0.1:99999999', 'a:b:c', '127.0.0.1, attacker.example', '',
]; // prettier-ignore

t.test('every path accepts only host names that nobody can register', async (t) => {
  for (const Host of OWN) t.equal((await send(admin, '/readyz', { headers: { Host } })).status, 200, Host);
  for (const Host of FOREIGN)
    for (const [method, path] of PATHS) {
      const reply = await exchange(
        admin,
        `${method} ${path} HTTP/1.1\r\nHost: ${Host}\r\n\r\n`,
        method === 'HEAD',
      );
      t.equal(reply.status, 403, `${method} ${path} at ${JSON.stringify(Host)}`);
      t.notOk(/latchkey_|upstream/.test(reply.body));
    }
});

t.test('a response ends with a newline', async (t) => {
  for (const [method, path] of PATHS) {
    if (method === 'HEAD') continue;
    const { status, text } = await send(admin, path, { method });
    t.match(text, /\n$/, `${method} ${path}: ${status}`);
  }
});

t.test('refuses requests from another origin or site, whichever field reveals it', async (t) => {
  const own = `http://127.0.0.1:${port}`;
  const rows: [Record<string, string>, number][] = [
    [{ Origin: own }, 200],
    [{ Origin: own, 'Sec-Fetch-Site': 'same-origin' }, 200],
    [{ 'Sec-Fetch-Site': 'none' }, 200],
    [{ Origin: 'http://attacker.example' }, 403],
    [{ Origin: 'null' }, 403],
    [{ Origin: '' }, 403],
    [{ Origin: `https://127.0.0.1:${port}` }, 403],
    [{ Origin: 'http://127.0.0.1' }, 403],
    [{ Origin: `http://localhost:${port}` }, 403],
    [{ Origin: `${own}.attacker.example` }, 403],
    [{ 'Sec-Fetch-Site': 'cross-site' }, 403],
    [{ 'Sec-Fetch-Site': 'same-site' }, 403],
    [{ 'Sec-Fetch-Site': 'CROSS-SITE' }, 403],
    [{ Origin: own, 'Sec-Fetch-Site': 'cross-site' }, 403],
    [{ Origin: 'http://attacker.example', 'Sec-Fetch-Site': 'same-origin' }, 403],
  ];
  for (const [headers, status] of rows)
    for (const [method, path] of PATHS) {
      if (status === 200 && path === '/nothing') continue;
      t.equal((await send(admin, path, { method, headers })).status, status, `${method} ${path} ${JSON.stringify(headers)}`);
    }
}); // prettier-ignore

t.test('accepts HTTP/1.0 without Host, which is a probe and not a browser', async (t) => {
  const client = openRaw(admin, { bytes: 'GET /healthz HTTP/1.0\r\n\r\n' });
  await client.closed;
  t.equal(client.error, undefined);
  t.match(client.text(), /^HTTP\/1\.1 200 /);
});

t.test('refuses requests that a page of another origin makes in a browser', async (t) => {
  const elsewhere = await startUpstream(t);
  const browser = await startChromium(t);
  const page = await browser.newPage();
  await page.goto(elsewhere.url);
  const reloads = async () =>
    /^latchkey_config_last_reload_success_timestamp_seconds (\S+)$/m.exec(await freshMetrics(admin))?.[1];
  const before = await reloads();
  t.match(before, /^\d/);
  const answers: number[] = [];
  page.on('response', (answer) => {
    if (answer.url().startsWith(admin)) answers.push(answer.status());
  });
  await page.evaluate(`fetch('${admin}/-/reload', { method: 'POST', mode: 'no-cors' }).catch(() => 0)`);
  await page.evaluate(`fetch('${admin}/-/config', { mode: 'no-cors' }).catch(() => 0)`);
  await page.evaluate(
    `new Promise((done) => { const img = new Image(); img.onerror = img.onload = done; img.src = '${admin}/metrics'; })`,
  );
  t.same([...new Set(answers)], [403]);
  t.equal(await reloads(), before);
});
