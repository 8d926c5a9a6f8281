import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { newAccessToken } from '../../src/domain/secret.js';
import { startCollector } from '../helpers/collector.js';
import { PASSWORD, startFixture } from '../helpers/fixture.js';
import { type Reply, send, sendRaw, serveHttp } from '../helpers/http.js';
import { run, start, temporaryFolder, writeConfig } from '../helpers/latchkey.js';
import { rememberSecret } from '../helpers/secrets.js';
import { forEachRow } from '../helpers/table.js';
import { matchLog, until } from '../helpers/until.js';

// The test helpers search every output, file and store of the servers for each token that a test
// got, and fail if they find one.
const ALL = ['path', 'query', 'client', 'host', 'user_agent', 'timings'];

t.test('masks a token in an unusual position in log, audit log, span and explanation', async (t) => {
  const collector = await startCollector(t);
  const audit = join(temporaryFolder(t), 'audit.jsonl');
  const fixture = await startFixture(t, {
    log: { fields: ALL, level: 'debug' },
    audit: { to: audit },
    tracing: { otlp: collector.url },
    routes: [{ path: '/open/*', auth: 'none' }, { path: '/needs/*', action: 'billing' }],
    decision: { port: 0 },
  });
  const { url, server, token, login, create, configFile } = fixture;
  const secret = await token('superuser');
  const cookie = await login('superuser');
  const long = 'a'.repeat(490);
  const paths = [
    `/tokens/${secret}`, `/open/${secret}`, `/open/${secret}/${secret}x`, `/open/x${secret}`, `/open/${long}${secret}`, `/needs/${secret}`,
    `/open/a?${secret}=1`, `/open/a?${long}&${secret}`, `/customer/${secret}/tokens`, `/${secret}`, `/open/lk${secret}`, `/open/${secret}${secret}`, `/open//${secret}`,
    `/tokens/${secret}/x`, `/_latchkey/sessions/${secret}`, `/_latchkey/assets/${secret}`,
  ];
  const refusals: string[] = [];
  const note = ({ status, text, headers }: Reply) => void (status >= 400 && refusals.push(JSON.stringify(headers) + text));
  for (const path of paths)
    for (const headers of [{}, { Cookie: cookie }, { 'Service-Key': secret }, { 'Service-Key': await token('engineer') }])
      for (const method of ['GET', 'DELETE', 'PURGE'] as const) if (path !== `/tokens/${secret}` || method === 'GET') note(await send(url, path, { method, headers }));
  const fields: Record<string, string>[] = [
    { 'User-Agent': `curl ${secret}` }, { 'User-Agent': `${'b'.repeat(500)} ${secret}` }, { Referer: `http://a/${secret}` }, { Host: `${secret}.example` }, { 'X-Request-Id': secret },
    { traceparent: secret }, { Origin: `http://${secret}` }, { Cookie: `service.session=${secret}` }, { Authorization: `Bearer ${secret}` }, { [secret]: secret }, { Expect: secret }, { Upgrade: secret },
  ];
  for (const headers of fields) for (const path of ['/open/a', '/needs/a', '/']) note(await send(url, path, { headers }));
  await sendRaw(url, `${secret} / HTTP/1.1\r\nHost: a\r\n\r\n`);
  await sendRaw(url, `GET ${secret} HTTP/1.1\r\nHost: a\r\n\r\n`);
  await sendRaw(url, `GET / HTTP/1.1\r\nHost: a\r\n${secret}: x\r\n${secret}\r\n\r\n`);
  for (const path of ['/auth-request', `/auth-request?${secret}`, `/${secret}`])
    await send(server.decision, path, { headers: { 'X-Original-Method': secret, 'X-Original-URI': `/needs/${secret}` } });
  for (const body of [{ user: secret, password: secret }, { user: 'superuser@example.com', password: secret }])
    note(await send(url, '/login', { body: new URLSearchParams(body) }));
  for (const name of ['name', 'scope', 'services[]', 'expires_at', secret]) note(await create('user', { [name]: secret }));
  const ids = JSON.stringify({ data: [{ type: 'token', id: secret }] });
  note(await send(url, '/tokens', { method: 'DELETE', body: ids, headers: { Cookie: cookie, 'Content-Type': 'application/json' } }));
  t.ok(refusals.length > 50, `${refusals.length} refusals`);
  t.same(refusals.filter((text) => text.includes(secret.slice(0, 20))), [], 'no refusal repeats it');
  await send(url, '/tokens/self', { headers: { 'Service-Key': secret, 'User-Agent': `curl ${secret}` } });
  const form = new URLSearchParams({ user: 'superuser@example.com', password: PASSWORD });
  await send(url, '/login', { body: form, headers: { 'User-Agent': `curl ${secret}` } });
  for (const path of ['/tokens', '/_latchkey/sessions']) {
    const { text } = await send(url, path, { headers: { Cookie: cookie } });
    t.match(text, /curl lk\*{38}/, path);
    t.notOk(text.includes(secret.slice(0, 20)), path);
  }

  await until(() => /\/open\/lk\*{38}"/.test(server.stdout()), 'the masked path is logged');
  await matchLog(t, server, /"user_agent":"curl lk\*{38}"/);
  await matchLog(t, server, new RegExp(`"path":"/open/${long}lk\\*{14}"`), 'no partial token at the end');
  const parts = [secret, secret.slice(0, 20), secret.slice(2, 22)];
  const spans = JSON.stringify(collector.spans, (_, value: unknown) => (typeof value === 'bigint' ? String(value) : value));
  t.match(spans, /lk\*{38}/);
  forEachRow(parts, (part) => {
    t.notOk(server.stdout().includes(part), 'log');
    t.notOk(readFileSync(audit, 'utf8').includes(part), 'audit log');
    t.notOk(spans.includes(part), 'spans');
  });

  for (const json of [[], ['--json']]) {
    const explained = await run(['explain', '--config', configFile, '--method', 'GET', '--path', `/tokens/${secret}`, '--user', 'superuser', ...json]);
    t.match(explained, { code: /[01]/, stdout: /\/tokens\/lk\*{38}/ });
    t.notOk(explained.stdout.includes(secret.slice(0, 20)));
  }
  const shown = await run(['token', 'show', '--config', configFile, secret]);
  t.equal(shown.code, 1);
  t.notOk((shown.stdout + shown.stderr).includes(secret.slice(0, 20)));
}); // prettier-ignore

t.test('messages show the address of an account source without its credentials', async (t) => {
  const { url: sourceUrl } = await serveHttp(t, (_req, res) => void res.writeHead(500).end());
  const base = new URL(sourceUrl);
  const key = newAccessToken();
  for (const secret of ['source-query-key', key]) rememberSecret(secret);
  const http = { url: `http://${base.host}/users/check?key=source-query-key&token=${key}` };
  const configFile = writeConfig(temporaryFolder(t), { upstream: 'http://127.0.0.1:9', directory: { http } });
  const server = await start(t, configFile);
  const reply = await send(server.url, '/login', { body: new URLSearchParams({ user: 'a', password: 'b' }) });
  t.equal(reply.status, 503);
  await matchLog(t, server, `directory.http: http://${base.host}/users/check: it responded with 500`);
  t.notMatch(server.stdout() + server.stderr(), /source-query|lk\w{38}/);
}); // prettier-ignore

t.test('the printed configuration hides the path of a webhook URL', async (t) => {
  const secret = `whsec_${Buffer.alloc(32, 'k').toString('base64')}`;
  const hook = (url: string) => ({ url, secret });
  const webhooks = [
    hook('https://hooks.example/services/T0/B0/path-secret?key=query-secret'),
    hook('https://plain.example/'),
  ];
  const { server } = await startFixture(t, { webhooks, upstream: 'http://127.0.0.1:9' });
  const { text, json } = await send(server.admin, '/-/config');
  t.match(json.webhooks, [{ url: 'https://hooks.example/***?***' }, { url: 'https://plain.example/' }]);
  t.notMatch(text, /path-secret|query-secret/);
});
