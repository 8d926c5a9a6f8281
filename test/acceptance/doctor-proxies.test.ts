import { spawn } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { join, posix } from 'node:path';
import t, { type Test } from 'tap';
import { needPackages, runs } from '../helpers/debian.js';
import { client, startFixture } from '../helpers/fixture.js';
import { startFront } from '../helpers/front.js';
import { serveHttp } from '../helpers/http.js';
import { temporaryFolder } from '../helpers/latchkey.js';
import { accepts } from '../helpers/raw-client.mjs';
import { freePort } from '../helpers/free-port.mjs';
import { EVERY_CASE, nightly } from '../helpers/nightly.js';
import { until } from '../helpers/until.js';
import { diagnose, found } from '../doctor/deployments.js';

type Edit = readonly [from: RegExp | string, to: string];

/**
 * A careless variant of an example configuration: the check to run (or `all`), the expected result,
 * and the edits. `API` and `ADMIN` stand for addresses.
 */
type Careless = readonly [check: string, expected: string, ...edits: Edit[]];

const NGINX: Record<string, Careless> = {
  'an identity header that is not replaced': ['all', 'identity-headers serious', ['proxy_set_header X-Auth-Role $auth_role;', '']],
  'fields with underscores, which Latchkey refuses': ['all', '', ['listen 127', 'underscores_in_headers on; listen 127']],
  'a location without a check': ['all', 'paths serious', ['location / {', 'location ~ \\.css$ { auth_request off; proxy_pass http://api; }\n    location / {']],
  'a prefix without a check': ['paths', 'serious', ['location / {', 'location ^~ /static { auth_request off; proxy_pass http://api$request_uri; }\n    location / {']],
  'a public decision port': ['decision-port', 'serious', ['internal;', '']],
  'any Upgrade': ['framing', 'serious', ['proxy_set_header Upgrade $websocket;', 'proxy_set_header Upgrade $http_upgrade;'], ['proxy_set_header Connection $api_connection;', 'proxy_set_header Connection upgrade;'], ['proxy_set_header X-Original-Upgrade $http_upgrade;', '']],
  'metrics under a path': ['admin-port', 'serious', ['location / {', 'location /internal/ { auth_request off; proxy_pass http://ADMIN/; }\n    location / {']],
  'an error page for 401': ['authentication', 'serious', ['auth_request /_decision;', 'auth_request /_decision; error_page 401 =200 /sorry;\n    location = /sorry { auth_request off; default_type text/html; return 200 "please log in"; }']],
  'a login redirect for 401, and files without a check': [
    'paths', 'serious',
    ['auth_request /_decision;', 'auth_request /_decision; error_page 401 =302 /login?rd=$request_uri;'],
    ['location / {', 'location ~ \\.css$ { auth_request off; proxy_pass http://api; }\n    location / {'],
  ],
  'overrides': ['overrides', 'serious', ['include dropped.conf;', '']],
  'a check of one location only': ['authentication', 'warning', ['auth_request /_decision;', ''], ['location / {', 'location / { proxy_pass http://api; }\n    location /service { auth_request /_decision;']],
  'OPTIONS without a check': ['options', 'serious', ['location / {', 'error_page 418 = @open;\n    location @open { auth_request off; proxy_pass http://api; }\n    location / { if ($request_method = OPTIONS) { return 418; }'], ['auth_request /_decision;', ''], ['proxy_pass http://api;\n      proxy_http', 'auth_request /_decision; proxy_pass http://api;\n      proxy_http']],
  'the client address is enough': ['authentication', 'serious', ['auth_request /_decision;', 'auth_request /_decision; satisfy any; allow 127.0.0.1; deny all;']],
}; // prettier-ignore

const CADDY: Record<string, Careless> = {
  'a header that a client sets': ['identity-headers', 'serious', [/^.*X-Auth-Role.*\n/gm, '']],
  'Connection may name an identity header': ['identity-headers', 'serious', ['respond @hides "Connection must not name this field" 400', '']],
  'files without a check': ['paths', 'serious', ['# Fields that APIs', '@files path *.css *.png\n\t\treverse_proxy @files API\n\t\t# Fields that APIs']],
}; // prettier-ignore

/** What the suite tries; `npm run nightly` tries all. */
const NAMED: ReadonlySet<string> = new Set([
  'a header that a client sets',
  'a location without a check',
  'a public decision port',
  'an error page for 401',
  'a check of one location only',
  'files without a check',
]);

function tried<Case>(cases: Record<string, Case>): [string, Case][] {
  return Object.entries(cases).filter(([name]) => EVERY_CASE || NAMED.has(name));
}

/** Checks that find more with a token. */
const OF_TOKENS: ReadonlySet<string> = new Set(['decision-port', 'identity-headers']);

/** Copies part of a configuration for each careless variant, each with its own port. */
async function variants(
  cases: Record<string, Careless>,
  part: string,
  own: number,
  addresses: Record<string, string>,
): Promise<{ text: string; ports: ReadonlyMap<string, number> }> {
  const ports = new Map<string, number>();
  const parts = await Promise.all(
    tried(cases).map(async ([name, [, , ...edits]]) => {
      const port = await freePort();
      ports.set(name, port);
      let text = part;
      for (const [from, to] of edits) {
        const changed = text.replace(from, () => to);
        if (changed === text) throw new Error(`${name}: there is no ${from}`);
        text = changed;
      }
      text = text.replaceAll(new RegExp(Object.keys(addresses).join('|'), 'g'), (found) => addresses[found] ?? '');
      return text.replaceAll(String(own), String(port)).replaceAll('PORT', String(port));
    }),
  );
  return { text: parts.join('\n'), ports };
} // prettier-ignore

/** Starts an API that shows what it receives on the paths that it has, and resolves paths as Tomcat does. */
async function startApi(t: Test): Promise<string> {
  const { url } = await serveHttp(t, ({ method, url: target = '', headers, rawHeaders }, res) => {
    const path = posix.normalize(target.replace(/\?.*/, '').replaceAll(/;[^/]*/g, ''));
    const isKnown = path === '/status' || path.startsWith('/service/');
    res.writeHead(isKnown ? 200 : 404, { 'Content-Type': 'application/json' });
    res.end(JSON.stringify(isKnown ? { method, target, headers, rawHeaders } : { error: 'not found' }));
  });
  return url;
}

/** Starts an example together with all careless variants, and diagnoses each. */
async function examineAll(t: Test, proxy: 'nginx' | 'caddy', cases: Record<string, Careless>): Promise<void> {
  const upstream = await startApi(t);
  const file = proxy === 'nginx' ? 'nginx.conf' : 'Caddyfile';
  let ports: ReadonlyMap<string, number> = new Map();
  const { url, latchkey } = await startFront(t, proxy, upstream, async ({ folder, port, latchkey }) => {
    const name = join(folder, file);
    const whole = readFileSync(name, 'utf8');
    const part = proxy === 'nginx' ? /\n {2}server \{\n {4}listen[^]*\n {2}\}\n/.exec(whole) : /\n:\d+ \{[^]*$/.exec(whole);
    const copies = await variants(cases, part?.[0] ?? '', port, { API: new URL(upstream).host, ADMIN: new URL(latchkey.admin).host });
    ports = copies.ports;
    const text = proxy === 'nginx' ? whole.replace(/\}\s*$/, () => `${copies.text}}\n`) : `${whole}\n${copies.text}`;
    writeFileSync(name, text);
  });
  const key = await client(latchkey.url).token('ada');
  const findings = (await diagnose(url, { key })).findings.map(({ check, severity }) => `${check} ${severity}`);
  // Go reads Transfer-Encoding only and does not forward Content-Length, but keeps the connection
  // open.
  t.same(findings, proxy === 'caddy' ? ['framing warning'] : [], 'the unchanged example, with a token');
  for (const [name, [check, expected]] of tried(cases)) {
    const credential = OF_TOKENS.has(check) ? { key } : {};
    const report = await diagnose(`http://127.0.0.1:${ports.get(name)}`, { ...(check === 'all' ? {} : { checks: [check] }), ...credential });
    const result = check === 'all' ? found(report).join() : report.checks[0]?.result;
    t.equal(result, expected, name, { findings: report.findings, checks: report.checks });
  }
} // prettier-ignore

t.test('nginx', async (t) => examineAll(t, 'nginx', NGINX));
t.test('Caddy', nightly, async (t) => examineAll(t, 'caddy', CADDY));

const HAPROXY: Record<string, readonly [check: string, expected: string, rule: string]> = {
  'files without a check': ['paths', 'serious', 'use_backend api if { path_end .css }'],
  'a prefix without a check': ['paths', 'serious', 'use_backend api if { path_beg /health }'],
  'OPTIONS': ['options', 'serious', 'use_backend api if METH_OPTIONS'],
}; // prettier-ignore

t.test('HAProxy in front of Latchkey', nightly, async (t) => {
  needPackages(() => runs('haproxy', '-v'), 'haproxy');
  const api = await startApi(t);
  const { url, token } = await startFixture(t, { upstream: api });
  const own = await freePort();
  const fronts = await Promise.all(
    tried(HAPROXY).map(async ([name, [check, expected, rule]]) => ({ name, check, expected, rule, port: await freePort() })),
  );
  const file = join(temporaryFolder(t), 'haproxy.cfg');
  const frontend = (port: number, rule = '') => `frontend f${port}\n  bind 127.0.0.1:${port}\n  ${rule}\n  default_backend latchkey\n`;
  const backend = (name: string, to: string) => `backend ${name}\n  server s ${new URL(to).host}\n`;
  writeFileSync(
    file,
    `defaults\n  mode http\n  timeout connect 5s\n  timeout client 10s\n  timeout server 10s\n${frontend(own)}${fronts.map(({ port, rule }) => frontend(port, rule)).join('')}${backend('latchkey', url)}${backend('api', api)}`,
  );
  const child = spawn('haproxy', ['-f', file, '-db'], { stdio: 'ignore' });
  const gone = new Promise((done) => child.once('close', done));
  t.teardown(async () => {
    child.kill('SIGTERM');
    await gone;
  });
  await until(() => accepts(own), 'haproxy accepts connections', 30_000);
  const key = await token('superuser');
  t.same((await diagnose(`http://127.0.0.1:${own}`, { key })).findings, [], 'without an additional rule');
  for (const { name, check, expected, port } of fronts) {
    const report = await diagnose(`http://127.0.0.1:${port}`, { checks: [check] });
    t.equal(report.checks[0]?.result, expected, name, { findings: report.findings, checks: report.checks });
  }
}); // prettier-ignore
