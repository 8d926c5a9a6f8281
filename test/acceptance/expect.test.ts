import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { run, temporaryFolder, writeConfig } from '../helpers/latchkey.js';

const folder = temporaryFolder(t);
const config = writeConfig(folder, { upstream: 'http://127.0.0.1:1' });
const file = join(folder, 'expect.yaml');

/** Runs `check --expect` with a table of one-line rows. */
function check(...rows: string[]) {
  writeFileSync(file, `requests:\n${rows.map((row) => `  - { ${row} }\n`).join('')}`);
  return run(['check', '--config', config, '--expect', file]);
}

t.test('accepts a matching table, without a store', async (t) => {
  const rows = [
    'path: /service/S1, as: anonymous, expect: 401',
    'path: /service/S1, as: anonymous, expect: unauthenticated',
    'path: /service/S1, as: { role: user }, expect: allow',
    'path: /service/S1, method: PUT, as: { role: user }, expect: role',
    'path: /service/S1, method: PUT, as: { role: engineer, scope: "global:read" }, expect: scope',
    'path: /service/S1/purge_all, method: POST, as: { role: engineer, scope: purge_all purge_select, services: [S1] }, expect: allow',
    'path: /service/S2/purge_all, method: POST, as: { role: engineer, scope: purge_all, services: [S1] }, expect: service',
    'path: /users, method: POST, as: { role: superuser, services: [S1] }, expect: service_limited',
    'path: /billing, as: { role: engineer, scope: global }, expect: 403',
    'path: /tokens, as: { role: billing }, expect: allow',
    'path: /tokens, as: { role: engineer }, expect: role',
    'path: /tokens, as: { role: superuser, scope: global }, expect: wrong_credential_kind',
    'path: /tokens/abc, method: DELETE, as: { role: billing }, expect: allow',
    'path: /customer/C1/tokens, as: { role: superuser }, expect: allow',
    'path: /customer/C9/tokens, as: { role: superuser }, expect: other_customer',
    'path: /customer/C9/tokens, as: { role: superuser, customer_id: C9 }, expect: allow',
    'path: /user/U1, method: DELETE, as: { role: superuser }, expect: allow',
    'path: /service//S1, as: { role: superuser }, expect: malformed',
    'path: /service/S1, method: POST, headers: { Origin: "https://evil.example" }, as: { role: superuser }, expect: cross_origin',
  ];
  t.same(await check(...rows), { code: 0, stdout: `${config}: ok, 19 requests decided as expected\n`, stderr: '' }); // prettier-ignore
});

t.test('reports rows that differ with position, actual outcome and rule', async (t) => {
  const { code, stdout, stderr } = await check(
    'path: /billing, as: { role: engineer }, expect: allow',
    'path: /billing, as: { role: billing }, expect: allow',
    'path: /service/S1, as: { role: user }, expect: 403',
    'path: /service/S1, as: anonymous, expect: allow',
    'path: /x, method: POST, as: { role: engineer, scope: "global:read", services: [S1] }, expect: role',
  );
  t.equal(code, 1);
  t.equal(stdout, '');
  t.same(stderr.replaceAll(`${file}:`, '').trim().split('\n'), [
    '2:5: GET /billing as engineer by session: expected allow, got 403 role (The role engineer is not allowed to perform billing:read) by policy.roles.engineer.deny.0, built in; route /billing',
    '4:5: GET /service/S1 as user by session: expected 403, got allow by policy.roles.user.allow.0, built in; route /service/:service_id',
    '5:5: GET /service/S1 as anonymous: expected allow, got 401 unauthenticated (Provided credentials are missing or invalid); route /service/:service_id',
    '6:5: POST /x as engineer with global:read limited to S1: expected role, got 403 scope (Read only tokens are not allowed to access this endpoint) by policy.scopes.global:read, built in; route default_route',
  ]);
});

t.test('reports an invalid table before running any row', async (t) => {
  const row = 'path: /x, as: { role: enginer, scope: globl }, expect: allow';
  t.same((await check(row)).stderr.replaceAll(`${file}:`, '').split('\n'), [
    '2:29: requests.0.as.role: no role has this name (did you mean "engineer"?)',
    '2:45: requests.0.as.scope: no scope has this name (did you mean "global"?)',
    '',
  ]);
  t.match(await check('path: /x, as: anonymous, expect: yes'), {
    code: 1,
    stderr: /2:40: requests\.0\.expect: expected allow, a status like 403, or a reason: malformed, /,
  });
  t.match(await check('path: /x, as: anonymus, expect: 200'), { stderr: /expected anonymous, or \{ role/ });
  t.match(await check('path: /x, as: anonymous, expect: 200, metod: GET'), {
    stderr: /unknown key "metod" \(did you mean "method"\?\)/,
  });
  writeFileSync(file, 'requests: []');
  t.match(await run(['check', '--config', config, '--expect', file]), {
    code: 1,
    stderr: /expected at least one request/,
  });
});

t.test('check names what is open to everybody, and explain takes a host', async (t) => {
  const routes = [
    { host: 'git.example', path: '/*', action: 'git' },
    { path: '/open', methods: ['GET'], auth: 'none' },
  ];
  const hosted = writeConfig(temporaryFolder(t), { upstream: 'http://127.0.0.1:1', interface: { hosts: ['login.example'] }, routes });
  writeFileSync(file, 'requests: [{ host: git.example, path: /open, as: anonymous, expect: 401 }, { path: /open, as: anonymous, expect: allow }]');
  const { stdout } = await run(['check', '--config', hosted, '--expect', file]);
  t.match(stdout, /: open to everybody, without a credential: GET \/open\n.*: ok, 2 requests decided/);
  const explain = (...args: string[]) => run(['explain', '--config', hosted, '--anonymous', ...args]);
  t.match((await explain('--host', 'GIT.example:80', '--path', '/open')).stdout, /route +git\.example\/\* +routes\.0/);
  t.match((await explain('--path', '/open')).stdout, /route +\/open[^]*none: the route requires no credential[^]*forwarded to the upstream api/);
  t.match(await explain('--path', 'orders'), { code: 2, stderr: /write --path \/orders/ });
}); // prettier-ignore
