import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';
import t from 'tap';
import { stringify } from 'yaml';
import { startFixture } from '../helpers/fixture.js';
import { send } from '../helpers/http.js';
import { run, temporaryFolder } from '../helpers/latchkey.js';

const folder = temporaryFolder(t);
const BEFORE = {
  upstream: 'http://127.0.0.1:1',
  policy: {
    roles: { superuser: { allow: ['*'] }, engineer: { allow: ['*'], deny: ['billing:*'] } },
    scopes: { global: { allow: ['*'] }, 'global:read': { allow: ['*:read'] } },
  },
  routes: [
    { path: '/billing', action: 'billing' },
    { path: '/status', auth: 'none' },
  ],
};
const allowing = { ...BEFORE.policy, roles: { superuser: { allow: ['*'] }, engineer: { allow: ['*'] } } };
const refusing = { ...BEFORE.policy, scopes: { global: { allow: ['*'] } } };

function write(name: string, content: object): string {
  const file = join(folder, name);
  writeFileSync(file, stringify(content));
  return file;
}

const config = write('latchkey.yaml', BEFORE);
const diff = async (against: string, ...more: string[]) =>
  run(['policy', 'diff', '--config', config, '--against', against, ...more]);

t.test('exits with 1 if something becomes allowed, otherwise with 0', async (t) => {
  const allows = await diff(write('allows.yaml', { ...BEFORE, policy: allowing }));
  t.match(allows, { code: 1, stderr: '' });
  t.match(allows.stdout, /^NEWLY ALLOWED\n\n {2}who {5}role engineer; by session or by a token with scope/m);
  t.match(allows.stdout, /now +the role is denied by "billing:\*" +\(policy\.roles\.engineer\.deny\.0, .*latchkey\.yaml:11\)/); // prettier-ignore
  t.match(allows.stdout, /then +the role is allowed by "\*" +\(policy\.roles\.engineer\.allow\.0, .*allows\.yaml:/);
  t.match(allows.stdout, /GET HEAD OPTIONS [A-Z ]+ +\/billing +billing:read +.*latchkey\.yaml:\d+ -> .*allows\.yaml:\d+/);
  t.notMatch(allows.stdout, /NEWLY REFUSED/);

  const refuses = await diff(write('refuses.yaml', { policy: refusing }));
  t.match(refuses, { code: 0, stderr: '' });
  t.match(refuses.stdout, /^NEWLY REFUSED$/m);
  t.match(refuses.stdout, /scope: no entry of that name/);

  const stripped = write('stripped.yaml', { ...BEFORE, log: { level: 'warn' }, routes: [BEFORE.routes[0], { ...BEFORE.routes[1], strip_prefix: '/status' }] });
  const other = await diff(stripped);
  t.match(other, { code: 1, stdout: /^DIFFERS, NOT COMPARED .*\n\n {4}log\.level\n {4}routes\.\/status\.strip_prefix\n\nNo change found, but not everything/m });
  t.match(JSON.parse((await diff(stripped, '--allow', 'log', '--json')).stdout), { result: 'incomplete', not_compared: ['routes./status.strip_prefix'] });
  t.match(await diff(stripped, '--allow', 'log.level', '--allow', 'routes'), { code: 0, stdout: /Nothing changes/ });

  const same = await diff(config);
  t.match(same, { code: 0, stdout: /\n\nNothing changes\n$/ });
}); // prettier-ignore

t.test('wrong usage, and files that cannot be compared', async (t) => {
  t.match(await run(['policy', 'diff', '--config', config]), { code: 2, stderr: /--against/ });
  t.match(await diff(join(folder, 'none.yaml')), { code: 1, stdout: '', stderr: /none\.yaml:1:1: cannot be read/ });
  const bad = write('bad.yaml', { policy: { roles: { a: { alow: [] } } } });
  t.match(await diff(bad), { code: 1, stdout: '', stderr: /bad\.yaml:4:\d+: unknown key "alow"/ });
  t.match(await diff(config, '--requests', join(folder, 'none.log')), { code: 1, stdout: '', stderr: /cannot be read/ });
  const zipped = join(folder, 'access.log.gz');
  writeFileSync(zipped, gzipSync('{"msg":"ready"}\n'));
  t.match(await diff(config, '--requests', zipped), { code: 1, stdout: '', stderr: /access\.log\.gz has no request entries; pass the log as Latchkey wrote it/ });
  const foreign = join(folder, 'nginx.log');
  writeFileSync(foreign, '192.0.2.1 - - [10/Oct/2026:13:55:36 +0000] "GET / HTTP/1.1" 200 2326\n');
  t.match(await diff(config, '--requests', foreign), { code: 1, stdout: '', stderr: /nginx\.log has no request entries; pass the log as Latchkey wrote it/ });
  writeFileSync(foreign, '{"msg":"ready"}\n');
  t.match(await diff(config, '--requests', foreign), { code: 0, stdout: /0 requests/ });
}); // prettier-ignore

t.test('as JSON', async (t) => {
  const { code, stdout } = await diff(write('json.yaml', { policy: allowing }), '--json');
  t.equal(code, 1);
  t.match(JSON.parse(stdout), {
    config,
    result: 'allows_more',
    newly_allowed: [
      {
        roles: ['engineer'],
        sessions: true,
        rule: { path: 'policy.roles.engineer.deny.0' },
        routes: [{ config: { path: '/billing' } }],
      },
    ],
    newly_refused: [],
    not_compared: [],
  });
  t.match(JSON.parse((await diff(config, '--json')).stdout), { result: 'nothing_changes' });
});

t.test('requests of a log: who is affected, and what cannot be decided', async (t) => {
  const { server, url, token, configFile } = await startFixture(t, {
    log: { requests: 'all' },
    routes: BEFORE.routes.concat([{ path: '/site', action: 'site', service: 'header:Site' } as never]),
    policy: { roles: { ...BEFORE.policy.roles, billing: { allow: ['*:read', 'billing:*', 'token:write'] }, user: { allow: ['*:read'] } }, scopes: BEFORE.policy.scopes },
  });
  const call = async (path: string, sent: object = {}) => send(url, path, sent);
  const reader = await token('superuser', { scope: 'global:read' });
  const limited = await token('superuser', { 'services[]': 'SVC1' });
  const keyed = (key: string, more: object = {}) => ({ headers: { 'Service-Key': key, ...more } });
  await call('/billing', keyed(reader));
  await call('/billing', keyed(reader));
  await call('/billing', keyed(await token('engineer')));
  await call('/site', keyed(limited, { Site: 'SVC1' }));
  await call('/site', keyed(limited, { Site: 'SVC9' }));
  await call('/site', keyed(limited));
  await call('/status');
  await call('/other');
  await server.stop();
  const log = join(folder, 'access.log');
  writeFileSync(log, `${server.stdout()}no entry\n{"msg":"request","request_id":"x","outcome":"forwarded","method":"GET","status":200}\n`);
  const against = write('next.yaml', {
    policy: { roles: { superuser: { allow: ['*'] }, engineer: { allow: ['*'] }, billing: { allow: ['*'] }, user: { allow: ['*'] } }, scopes: refusing.scopes },
    routes: [{ path: '/billing', action: 'billing' }, { path: '/status', action: 'status' }, { path: '/site', action: 'site' }],
  });
  const args = ['policy', 'diff', '--config', configFile, '--against', against, '--requests', log];
  const { code, stdout } = await run([...args, '--json']);
  t.equal(code, 1);
  const { requests } = JSON.parse(stdout) as { requests: Record<string, unknown> & { noticed: object[]; not_judged: { why: string; requests: number }[] } };
  const owner = { customer_id: 'C1', user_id: 'superuser', login: 'superuser@example.com', credential: 'token' };
  t.match(requests.noticed.find((each) => (each as { requests: number }).requests === 2 && (each as { change: string }).change === 'newly_refused'), {
    ...owner, method: 'GET', route: { path: '/billing' }, against_rule: { check: 'scope', text: 'no entry of that name' }, first: /^20/, last: /^20/,
  });
  const allowed = requests.noticed.filter((each) => (each as { change: string }).change === 'newly_allowed');
  t.match(allowed.find((each) => (each as { user_id: string }).user_id === 'engineer'), {
    login: 'engineer@example.com', route: { path: '/billing' }, rule: { path: 'policy.roles.engineer.deny.0' }, requests: 1,
  });
  t.match(allowed.find((each) => (each as { user_id: string }).user_id === 'superuser'), { route: { path: '/site' }, requests: 2 });
  t.match(requests, { unreadable_lines: 1, newly_allowed: 3, newly_refused: 2 });
  t.match(requests.not_judged.map(({ why }) => why).toSorted(), [/has no path/, /requires no credential so far/]);
  const text = (await run(args)).stdout;
  t.match(text, /REQUESTS of the log: \d+ requests, 3 newly allowed, 2 newly refused/);
  t.match(text, /refused +C1 +superuser@example\.com +token +\S+ .*GET +\/billing +2 /);
  t.match(text, /1 not compared: the entry has no path/);
  const { stdout: piped } = await run([...args.slice(0, -1), '-', '--json'], { input: server.stdout() });
  t.match(JSON.parse(piped), { requests: { newly_allowed: 3 } });
}); // prettier-ignore
