import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { syntheticSession } from '../../src/gate/what-if.js';
import { loadConfig } from '../../src/config/load.js';
import type { Explanation } from '../../src/gate/explain.js';
import { type SimulatedRequest, Simulator } from '../../src/pipeline/simulate.js';
import { openLmdbStore } from '../../src/store/lmdb.js';
import { type Fixture, LEGACY_KEY, startFixture } from '../helpers/fixture.js';
import { type Reply, send } from '../helpers/http.js';
import { run, temporaryFolder } from '../helpers/latchkey.js';

/** A credential as sent to the server and as passed to the simulator. */
interface Asker {
  readonly name: string;
  readonly headers: Record<string, string>;
  readonly as: SimulatedRequest['as'];
}

interface Row {
  readonly method: string;
  readonly path: string;
  readonly asker: Asker;
  readonly headers?: Record<string, string>;
}

/** A started server, and a simulator with its configuration and store. */
async function setUp(t: Test, config: object = {}) {
  const fixture = await startFixture(t, config);
  const store = openLmdbStore(`${fixture.folder}/data`);
  t.teardown(() => store.maintenance.close());
  const simulator = new Simulator(loadConfig(fixture.configFile), store);
  const byKey = (name: string, key: string): Asker => ({
    name,
    headers: { 'Service-Key': key },
    as: { key },
  });
  const bySession = async (user: string): Promise<Asker> => ({
    name: `${user} by session`,
    headers: { Cookie: await fixture.login(user) },
    as: { subject: syntheticSession((await store.directory.getUser(user)) as never) },
  });
  return { fixture, simulator, outcomes: new Map<string, number>(), byKey, bySession };
}

interface Asked {
  readonly fixture: Fixture;
  readonly simulator: Simulator;
  /** Number of explanations with each outcome. */
  readonly outcomes: Map<string, number>;
}

/** Asks both, and returns how they differ; undefined if they agree. */
async function difference(
  { fixture, simulator, outcomes }: Asked,
  { method, path, asker, headers = {} }: Row,
): Promise<string | undefined> {
  const fields = Object.entries({ Host: new URL(fixture.url).host, ...headers }).flat();
  const explained = await simulator.simulate({ method, target: path, fields, as: asker.as }, Date.now());
  const { outcome } = explained.verdict;
  outcomes.set(outcome, (outcomes.get(outcome) ?? 0) + 1);
  const reply = await send(fixture.url, path, { method, headers: { ...headers, ...asker.headers } });
  return compare(explained, reply);
}

function compare({ verdict, identity }: Explanation, reply: Reply): string | undefined {
  const got = `the server answered ${reply.status} ${reply.text.slice(0, 120)}`;
  if (verdict.outcome === 'forward') {
    if (reply.status !== 200) return `explained as forwarded, ${got}`;
    if (reply.text === '') return undefined;
    const seen = identityText(reply.json.headers as Record<string, string>);
    return seen === identityText(identity)
      ? undefined
      : `identity explained as ${identityText(identity)}, the upstream got ${seen}`;
  }
  if (verdict.outcome === 'answer' && verdict.status === null) {
    return [400, 415, 422].includes(reply.status) ? undefined : `explained as decided by the body, ${got}`;
  }
  if (verdict.status !== reply.status) return `explained as ${verdict.status} ${verdict.outcome}, ${got}`;
  const detail = reply.json === undefined ? undefined : (reply.json.detail ?? reply.json.msg);
  if (!verdict.allowed && reply.text !== '' && verdict.outcome !== 'malformed' && detail !== verdict.detail)
    return `explained with "${verdict.detail}", ${got}`;
  return undefined;
}

/** The identity headers, sorted, as one string. */
function identityText(headers: Readonly<Record<string, string>>): string {
  const lines = Object.entries(headers).map(([name, value]) => `${name.toLowerCase()}: ${value}`);
  return lines
    .filter((line) => line.startsWith('x-auth-'))
    .toSorted((a, b) => a.localeCompare(b))
    .join(', ');
}

const METHODS = ['GET', 'HEAD', 'OPTIONS', 'POST', 'PUT', 'DELETE', 'PURGE'];
const PATHS = [
  '/', '/anything?x=1', '/service', '/service/SVC1', '/service/SVC2/version/1', '/service/SVC1/purge_all',
  '/service/SVC2/purge_all', '/service/SVC1/purge', '/service/SVC1/purge/a%2Fb', '/purge/http://www.example.com/a',
  '/service/%53VC1', '//service/SVC1', '/service/SVC1/', '/service/SVC1/purge_all;x', '/a/%2e%2e/b', '/a%5cb', '/%zz',
  '/billing', '/billing/invoices', '/user/nobody', '/user/engineer', '/users', '/invitations', '/service-authorizations',
  '/status', '/st%61tus', '/status/', '/tokens', '/tokens/none', '/customer/C1/tokens', '/customer/C2/tokens', '/tokens/a/b',
  '/login', '/tokens/self',
]; // prettier-ignore

/** In the suite, each asker has some methods of each path; `npm run fuzz:properties` tries every row. */
const isTried = (row: number) => process.env['FC_RUNS'] === 'full' || row % 5 === 0;

t.test('explain and the server agree on the rows of a large table', async (t) => {
  const parts = await setUp(t);
  const { fixture, byKey, bySession } = parts;
  const engineers = (await fixture.create('engineer', { name: 'watched' })).json.id as string;
  const askers: Asker[] = [
    { name: 'anonymous', headers: {}, as: 'anonymous' },
    byKey('made up', 'lkxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx'),
    byKey('legacy key', LEGACY_KEY),
    byKey('superuser, global', await fixture.token('superuser')),
    byKey('engineer, global', await fixture.token('engineer')),
    byKey('billing, read', await fixture.token('billing', { scope: 'global:read' })),
    byKey('user, purge_select', await fixture.token('user', { scope: 'purge_select' })),
    byKey('superuser, purge_all of SVC1', await fixture.token('superuser', new URLSearchParams('scope=purge_all&services[]=SVC1'))),
    byKey('superuser, SVC1', await fixture.token('superuser', new URLSearchParams('services[]=SVC1'))),
    await bySession('superuser'),
    await bySession('billing'),
    await bySession('user'),
    await bySession('other'),
  ]; // prettier-ignore
  const rows = askers.flatMap((asker) =>
    [...PATHS, `/tokens/${engineers}`].flatMap((path) => METHODS.map((method): Row => ({ method, path, asker }))),
  ); // prettier-ignore
  // These rows change what later rows rely on; they have their own test below.
  const harmless = rows.filter(
    ({ method, path }, i) => isTried(i) && !(method === 'DELETE' && path.startsWith('/tokens/')),
  );
  t.ok(harmless.length > 500, `${harmless.length} rows`);
  for (const row of harmless) {
    const differs = await difference(parts, row);
    if (differs !== undefined) t.fail(`${row.method} ${row.path} as ${row.asker.name}: ${differs}`);
  }
  const { outcomes } = parts;
  for (const outcome of ['forward', 'answer', 'malformed', 'unauthenticated', 'role', 'scope', 'service', 'service_limited', 'wrong_credential_kind', 'other_customer', 'active_tokens']) {
    t.ok((outcomes.get(outcome) ?? 0) > 0, `${outcome}: ${outcomes.get(outcome)} rows`);
  } // prettier-ignore

  for (const user of ['superuser', 'billing', 'engineer', 'user', 'other']) {
    for (const owner of ['superuser', 'billing', 'engineer', 'user']) {
      const { id } = (await fixture.create(owner)).json;
      const row = { method: 'DELETE', path: `/tokens/${id}`, asker: await bySession(user) };
      t.equal(await difference(parts, row), undefined, `${user} deletes a token of ${owner}`);
    }
    const asker = byKey('self', await fixture.token(user === 'other' ? 'billing' : user));
    t.equal(await difference(parts, { method: 'DELETE', path: '/tokens/self', asker }), undefined, `${user} deletes itself`);
  } // prettier-ignore

  const cross = { Origin: 'https://evil.example' };
  for (const headers of [cross, { 'Sec-Fetch-Site': 'cross-site' }, { 'Sec-Fetch-Site': 'same-origin' }]) {
    for (const method of ['GET', 'POST']) {
      const row = { method, path: '/service/SVC1', asker: await bySession('superuser'), headers };
      t.equal(await difference(parts, row), undefined, `${method} with ${JSON.stringify(headers)}`);
    }
  }
});

t.test('they agree with custom routes, roles and scopes', async (t) => {
  const parts = await setUp(t, {
    interface: { token_endpoints: 'session_or_token' },
    policy: {
      roles: {
        superuser: { allow: ['*'] },
        engineer: { allow: ['*'], deny: ['order:write'] },
        billing: { allow: ['order:*'] },
        user: {},
      },
      scopes: { global: { allow: ['*'] }, 'global:read': { allow: ['*:read'] } },
    },
    routes: [
      { path: '/orders', action: 'order', service: 'header:X-Shop' },
      { path: '/orders/:id', action: 'order', service: 'query:shop' },
      { path: '/orders/:id/close', methods: ['POST'], action: 'order:close' },
      { path: '/closed', auth: 'deny' },
    ],
    default_route: { auth: 'deny' },
  });
  const { fixture, byKey, bySession } = parts;
  const limited = (scope: string) => new URLSearchParams(`scope=${scope}&services[]=SVC1`);
  const askers = [
    byKey('superuser', await fixture.token('superuser')),
    byKey('superuser, SVC1', await fixture.token('superuser', limited('global'))),
    byKey('engineer, SVC1, read', await fixture.token('engineer', limited('global:read'))),
    byKey('billing, SVC1', await fixture.token('billing', limited('global'))),
    byKey('a role that allows nothing', await fixture.token('user')),
    await bySession('engineer'),
  ];
  let count = 0;
  for (const asker of askers) {
    for (const path of ['/orders', '/orders/1?shop=SVC1', '/orders/1?shop=SVC2', '/orders/1?shop=SVC1&shop=SVC2', '/orders/1', '/orders/1/close', '/closed', '/', '/x', '/tokens', '/customer/C1/tokens']) {
      for (const method of ['GET', 'POST', 'PATCH']) {
        for (const headers of [{}, { 'X-Shop': 'SVC1' }, { 'x-shop': 'SVC2' }]) {
          count += 1;
          if (!isTried(count)) continue;
          const differs = await difference(parts, { method, path, asker, headers });
          if (differs !== undefined) t.fail(`${method} ${path} ${JSON.stringify(headers)} as ${asker.name}: ${differs}`);
        }
      }
    }
  } // prettier-ignore
  t.ok(count > 500, `${count} rows`);
});

t.test('the command prints the same, as text and as JSON', async (t) => {
  const { fixture, simulator } = await setUp(t);
  const key = await fixture.token('engineer', new URLSearchParams('scope=purge_all&services[]=SVC1'));
  const base = ['explain', '--config', fixture.configFile];
  const ask = ['--method', 'POST', '--path', '/service/SVC2/purge_all'];
  const json = await run([...base, ...ask, '--key', key, '--json']);
  const expected = await simulator.simulate(
    { method: 'POST', target: '/service/SVC2/purge_all', as: { key } },
    0,
  );
  t.same(JSON.parse(json.stdout), JSON.parse(JSON.stringify(expected)));
  // Programs read these names, independent of the names in the code.
  const { route, checks } = JSON.parse(json.stdout) as { route: object; checks: object[] };
  t.same(Object.keys(route), ['path', 'methods', 'auth', 'place']);
  t.same(Object.keys(checks[0] ?? {}), ['check', 'allowed', 'effect', 'pattern', 'place']);
  t.match(expected, {
    path: '/service/SVC2/purge_all',
    route: { path: '/service/:service_id/purge_all', methods: ['POST'] },
    action: 'purge:all',
    service: 'SVC2',
    credential: { kind: 'token', login: 'engineer@example.com', role: 'engineer', services: ['SVC1'] },
    checks: [
      { check: 'scope', allowed: true, pattern: 'purge:all', place: { path: 'policy.scopes.purge_all.allow.0', line: null } },
      { check: 'service_limited', allowed: true },
      { check: 'service', allowed: false },
      { check: 'role', allowed: true, pattern: '*', place: { path: 'policy.roles.engineer.allow.0' } },
    ],
    verdict: { allowed: false, outcome: 'service', status: 403 },
  }); // prettier-ignore
  t.notMatch(JSON.stringify(expected), key, 'it never contains the secret');

  const { stdout } = await run([...base, ...ask, '--key', '-'], { input: `${key}\n` });
  for (const line of [
    /^POST \/service\/SVC2\/purge_all$/m,
    /route +\/service\/:service_id\/purge_all \[POST\] +routes\.0, built in/,
    /action +purge:all/,
    /credential +token \w+ of engineer@example\.com \(engineer, customer C1\)/,
    /service +refused: SVC2 is not in the token's list/,
    /verdict +403 service/,
  ]) {
    t.match(stdout, line);
  }
  const remove = async (user: string) =>
    run([...base, '--method', 'DELETE', '--path', `/user/${user}`, '--user', 'superuser']);
  const guard =
    /guard +(.+?) {2,}routes\.\d+\.refuse_if_active_tokens, built in\n\n +verdict +(\d+|forwarded)/;
  const expectedGuards = {
    engineer: ['refused: the user engineer has active tokens', '400'],
    user: ['allowed: the user user has no active tokens', 'forwarded'],
  };
  for (const [user, guarded] of Object.entries(expectedGuards))
    t.same(guard.exec((await remove(user)).stdout)?.slice(1), guarded, user);

  const keyFile = join(temporaryFolder(t), 'key');
  writeFileSync(keyFile, `${key}\n`);
  for (const [args, input] of [
    [['--key', key], ''],
    [['--key-file', keyFile], ''],
    [['--key-file', '-'], `${key}\r\n`],
    [['--key-file', '-'], key],
  ] as const)
    t.same(await run([...base, ...ask, ...args], { input }), { code: 0, stdout, stderr: '' }, args[0]);
  writeFileSync(keyFile, '\n');
  t.match(await run([...base, ...ask, '--key-file', keyFile]), {
    code: 1,
    stderr: `latchkey: ${keyFile} does not contain the key\n`,
  });
  t.match(await run([...base, ...ask, '--key', '-']), {
    code: 1,
    stderr: 'latchkey: standard input does not contain the key\n',
  });
  t.match(await run([...base, ...ask, '--key-file', `${keyFile}.none`]), {
    code: 1,
    stderr: /none cannot be read: no such file or directory \(ENOENT\)/,
  });
  t.match(
    (await run(['explain', '--help'])).stdout.replaceAll(/\s+/g, ' '),
    /--key <secret> with this API token or legacy key, which other users can see/,
  );
  const asUser = await run([
    ...base,
    '--method',
    'GET',
    '--path',
    '/billing',
    '--user',
    'engineer@example.com',
  ]);
  t.match(asUser.stdout, /session of engineer[^]*role +refused: denied by "billing:\*" +policy\.roles\.engineer\.deny\.0, built in[^]*403 role/); // prettier-ignore
  const locked = await run([...base, '--method', 'GET', '--path', '/', '--user', 'locked@example.com']);
  t.match(
    locked.stdout,
    /401 unauthenticated[^]*not shown to the client: the user locked@example.com is locked/,
  );
  for (const args of [[], ['--key', 'a', '--anonymous'], ['--anonymous', '--scope', 'x'], ['--anonymous', '--header', 'x'], ['--key-file', 'a', '--key', 'a'], ['--key-file', 'a', '--user', 'a'], ['--key-file', 'a', '--anonymous'], ['--key-file', 'a', '--scope', 'x']]) {
    t.equal((await run([...base, '--method', 'GET', '--path', '/', ...args])).code, 2, args.join(' '));
  } // prettier-ignore
  const nobody = await run([...base, '--method', 'GET', '--path', '/', '--user', 'x@example.com']);
  t.match(nobody, {
    code: 1,
    stderr: /no user has the login or id x@example.com \(latchkey user list shows them\)/,
  });
});

t.test('--token-id explains a token and why it is refused, without its secret', async (t) => {
  const { fixture } = await setUp(t);
  const { id, access_token: secret } = (await fixture.create('user', new URLSearchParams('scope=purge_select&services[]=SVC2'))).json;
  const ask = (...args: string[]) => run(['explain', '--config', fixture.configFile, '--method', 'PUT', '--path', '/service/SVC2', '--token-id', id as string, ...args]);
  const { stdout } = await ask();
  t.match(stdout, /credential +token \w+ of user@example\.com \(user, customer C1\)\n[\s\S]*services +SVC2\n[\s\S]*verdict +403 scope/);
  t.notOk(stdout.includes(secret as string));
  const json = JSON.parse((await ask('--json')).stdout) as object;
  t.match(json, { credential: { token_id: id, role: 'user' }, verdict: { outcome: 'scope' } });
  for (const [args, shown] of [
    [['token', 'suspend', id as string], /verdict +401 unauthenticated[\s\S]*is suspended/],
    [['token', 'resume', id as string], /verdict +403 scope/],
    [['user', 'lock', 'user@example.com'], /verdict +401 unauthenticated[\s\S]*is locked/],
  ] as const) {
    await run([...args, '--config', fixture.configFile]);
    t.match((await ask()).stdout, shown, args.join(' '));
  }
  const none = await run(['explain', '--config', fixture.configFile, '--path', '/', '--token-id', 'none']);
  t.match(none, { code: 1, stderr: /no token has the id none \(latchkey token list shows them\)/ });
}); // prettier-ignore
