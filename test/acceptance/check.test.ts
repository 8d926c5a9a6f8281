import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { INSTALLED, run, temporaryFolder } from '../helpers/latchkey.js';

const file = join(temporaryFolder(t), 'f.yaml');
const UP = 'upstream: http://127.0.0.1:3000\n';

t.test('check warns of /x/* where /x has no route and needs less', async (t) => {
  const routes = `${UP}policy: { roles: { admin: { allow: ['*'] }, user: { allow: ['api:*', 'read:*'] } } }
default_route: { action: api }
routes:
  - { path: /admin/*, action: admin:write }
  - { path: "/svc/:sid/*", action: api, service: sid }
  - { path: /no/*, methods: [POST], auth: deny }
  - { path: /open/*, auth: none }
  - { path: /same/*, action: read }
  - { path: /both, action: api }
  - { path: /both/*, action: admin:write }
  - { path: "/*", methods: [PURGE], action: admin:write }
listen: { ready_path: /ready }
`;
  writeFileSync(file, routes);
  const warning = (i: number, base: string, method: string) =>
    `${file}:${i + 5}: warning: routes.${i}: does not match ${base} itself, for which default_route requires less with ${method}, ` +
    `and many upstreams serve both with one handler; add a route for ${base} too\n`;
  t.same(await run(['check', '--config', file]), {
    code: 0,
    stdout: `${file}: open to everybody, without a credential: GET /ready, /open/*\n${file}: ok\n`,
    stderr: warning(0, '/admin', 'GET') + warning(1, '/svc/:sid', 'GET') + warning(2, '/no', 'POST'),
  });
}); // prettier-ignore

t.test('check warns of customers and services that the directory file lacks', async (t) => {
  const folder = temporaryFolder(t);
  const config = join(folder, 'latchkey.yaml');
  const customers = 'customers: [{ id: C1, name: One }, { id: C2, name: Two }, { id: C3, name: Three }]\n';
  const services = 'services: [{ id: S1, customer_id: C1, name: a }, { id: T1, customer_id: C2, name: b }]\n';
  writeFileSync(join(folder, 'directory.yaml'), customers + services);
  const subjects = `${UP}directory: { file: ./directory.yaml }
login:
  public_url: https://api.example
  oidc:
    - { name: a, title: A, issuer: https://a.example, client_id: c, customer_id: C, roles: { claim: g, default: user } }
    - { name: b, title: B, issuer: https://b.example, client_id: c, customer_id: C2, roles: { claim: g, default: user } }
jwt_issuers:
  - name: ci
    issuer: https://ci.example
    audience: latchkey
    algorithms: [RS256]
    subjects:
      - { claims: { a: b }, customer_id: C1, role: user, services: [S1, T1] }
      - { claims: { a: c }, customer_id: c1, role: user, services: [S1] }
      - { claims: { a: d }, customer_id: C3, role: user, services: [T1] }
`;
  writeFileSync(config, subjects);
  const warning = (line: number, message: string) => `${config}:${line}: warning: ${message}\n`;
  const customer = 'no customer in the directory file has this id (did you mean "C1"?)';
  const service = 'no service of this customer in the directory file has this id (did you mean "S1"?)';
  t.same(await run(['check', '--config', config]), {
    code: 0,
    stdout: `${config}: ok\n`,
    stderr:
      warning(6, `login.oidc.0.customer_id: ${customer}`) +
      warning(14, `jwt_issuers.0.subjects.0.services.1: ${service}`) +
      warning(15, `jwt_issuers.0.subjects.1.customer_id: ${customer}`),
  });
});

t.test('the commands check, schema and hash-password', async (t) => {
  t.match(await run(['check', '--config', 'config/latchkey.yaml']), {
    code: 0,
    stdout: /latchkey\.yaml: ok\n$/,
    stderr: '',
  });
  writeFileSync(file, `${UP}lisen: 1`);
  t.same(await run(['check', '--config', file]), {
    code: 1,
    stdout: '',
    stderr: `${file}:2:1: unknown key "lisen" (did you mean "listen"?)\n`,
  });
  t.match(await run(['check', '--config', '/none.yaml']), {
    code: 1,
    stderr: '/none.yaml:1:1: cannot be read: no such file or directory (ENOENT)\n',
  });
  writeFileSync(file, `${UP}directory: { file: ${process.cwd()}/config/directory.yaml }`);
  t.match(await run(['check', '--config', file]), { code: 0 }, 'the example directory is valid');
  for (const args of [['check'], ['nothing'], ['serve', '--cofig', 'x'], ['schema', 'other']]) {
    const { code, stderr } = await run(args);
    t.equal(code, 2, args.join(' '));
    t.notMatch(stderr, /\n\s+at /, 'no stack trace');
  }
  const schema = JSON.parse((await run(['schema'])).stdout) as { properties: Record<string, unknown> };
  t.ok(['upstream', 'listen', 'policy', 'routes'].every((key) => key in schema.properties));
  t.ok('users' in (JSON.parse((await run(['schema', 'directory'])).stdout) as typeof schema).properties);
  const hashed = await run(['hash-password', '--password-file', '-'], {
    input: 'correct horse battery staple\n',
    program: INSTALLED,
  });
  t.match(hashed, { code: 0, stdout: /^\$argon2id\$v=19\$m=47104,t=1,p=1\$/ });
  t.match(await run(['hash-password', '--password-file', '-'], { input: 'short\n' }), {
    code: 1,
    stderr: /shorter than 15/,
  });
});
