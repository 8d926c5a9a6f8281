import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { INSTALLED, run, temporaryFolder } from '../helpers/latchkey.js';

const file = join(temporaryFolder(t), 'f.yaml');
const UP = 'upstream: http://127.0.0.1:3000\n';

t.test(
  'check warns of HEAD requests that a GET route takes from another rule, and of checks that nobody makes',
  async (t) => {
    const tail = 'write methods: [GET, HEAD] if that is intended, or give HEAD its own route';
    const other = (i: number, rule: string) =>
      `${file}:${i + 3}: warning: routes.${i} also handles HEAD, which ${rule} would decide differently; ${tail}\n`;
    const idle = (key: string) =>
      `${file}:10: warning: routes.7.${key} has no effect with auth: none, which lets everybody through; remove one of them\n`;
    const routes = `${UP}routes:
  - { path: /open, methods: [GET], auth: none }
  - { path: /said, methods: [GET, HEAD], auth: none }
  - { path: "/a/:id", methods: [GET, PUT], action: a, service: id }
  - { path: "/a/*", action: a }
  - { path: /api, methods: [GET], action: api }
  - { path: /h, methods: [GET], action: h }
  - { path: /h, methods: [HEAD], action: i }
  - { path: "/b/:id", auth: none, action: a, service: id }
`;
    writeFileSync(file, routes);
    t.same(await run(['check', '--config', file]), {
      code: 0,
      stdout: `${file}: ok\n`,
      stderr: other(0, 'default_route') + other(2, 'routes.3') + idle('action') + idle('service'),
    });
  },
);

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
