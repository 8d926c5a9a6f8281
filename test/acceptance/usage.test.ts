import { spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { INSTALLED, run, temporaryFolder, writeConfig } from '../helpers/latchkey.js';

const folder = temporaryFolder(t);
const config = writeConfig(
  folder,
  { upstream: 'http://127.0.0.1:1' },
  {
    customers: [
      { id: 'C1', name: 'One' },
      { id: 'C2', name: 'Two' },
    ],
    users: [
      // The id of one is the login of the other.
      { id: 'ada', customer_id: 'C1', login: 'ada@example.com', name: 'Ada', role: 'engineer' },
      { id: 'U2', customer_id: 'C1', login: 'ada', name: 'Another', role: 'engineer' },
    ],
  },
);
t.match(await run(['apply', '--config', config]), { code: 0 });

t.test('a backup that cannot be written names its file, and needs the path of one', async (t) => {
  const file = join(folder, 'backup.jsonl');
  const args = ['--fsize=64', process.execPath, INSTALLED, 'store', 'backup', file, '--config', config];
  const { status, stderr } = spawnSync('prlimit', args, { encoding: 'utf8' });
  t.match(
    { status, stderr },
    { status: 1, stderr: `latchkey: ${file} cannot be written: file too large (EFBIG)\n` },
  );
  const before = readdirSync('.');
  for (const name of ['', '-'])
    t.match(await run(['store', 'backup', name, '--config', config]), {
      code: 2,
      stdout: '',
      stderr: /store backup: pass the path of a file/,
    });
  t.same(readdirSync('.'), before, 'nothing was written');
  const long = join(folder, 'n'.repeat(255));
  t.match(await run(['store', 'backup', long, '--config', config]), { code: 0, stderr: '' });
  t.match(await run(['store', 'backup', `${long}n`, '--config', config]), {
    code: 1,
    stderr: `latchkey: ${long}n cannot be written: `,
  });
  t.notOk(existsSync(file));
});

t.test('init quotes paths, so that its commands can be pasted', async (t) => {
  const spaced = join(folder, "Ada's API");
  mkdirSync(spaced);
  const input = 'correct horse battery staple\n';
  const { stdout } = await run(['init', spaced, '--password-file', '-'], { input });
  const options = /latchkey serve (--config .*)/.exec(stdout)?.[1] ?? '';
  t.match(
    spawnSync('sh', ['-c', `"$0" "$1" check ${options}`, process.execPath, INSTALLED], { encoding: 'utf8' }),
    {
      status: 0,
      stdout: /latchkey\.yaml: ok\n$/,
    },
  );
});

t.test('help of a subcommand', async (t) => {
  for (const [args, usage] of [
    [['help', 'token'], 'Usage: latchkey token '],
    [['help'], 'Usage: latchkey '],
  ] as const)
    t.ok((await run(args)).stdout.startsWith(usage), args.join(' '));
});

t.test('options with values that cannot be are wrong usage', async (t) => {
  for (const [args, stderr] of [
    [['mint', '--as', 'ada', '--scope', ' '], /--scope .* is invalid\. Pass a value, or omit the option/],
    [['token', 'generate', '--user', 'U1', '--expires-at', '2001-01-01T00:00:00Z'], /the time has passed/],
    [
      ['token', 'generate', '--user', 'U1', '--expires-in', '90 days'],
      /--expires-in: expected a duration like 12h or 90d/,
    ],
    [['token', 'revoke', '--user', 'a', '--user', 'b'], /'--user <login>' is given more than once/],
    [['apply', '-f', 'a', '--file', 'b'], /'-f, --file <file>' is given more than once/],
  ] as const)
    t.match(await run(args), { stdout: '', stderr }, args.join(' '));
  t.equal((await run(['mint', '--as', 'ada', '--scope', ' '])).code, 2);
});

t.test('a declared token gets a lifetime, like one that is created', async (t) => {
  const before = Date.now();
  const { stdout } = await run(['token', 'generate', '--user', 'U1', '--expires-in', '90d', '--json']);
  const { entry } = JSON.parse(stdout) as { entry: { expires_at: string } };
  const life = Date.parse(entry.expires_at) - before;
  t.ok(life >= 90 * 86_400_000 && life <= 90 * 86_400_000 + Date.now() - before, entry.expires_at);
});

t.test('a list option that is repeated keeps all of its values', async (t) => {
  const services = ['--services', 'S1,S2', '--services', 'S3'];
  const { stdout } = await run(['token', 'generate', '--user', 'U1', ...services, '--json']);
  t.same((JSON.parse(stdout) as { entry: { services: string[] } }).entry.services, ['S1', 'S2', 'S3']);
});

t.test('a user is reported by id, and tokens are listed by user', async (t) => {
  const { stdout } = await run(['user', 'lock', 'ada@example.com', '--json', '--config', config]);
  t.match(JSON.parse(stdout), { id: 'ada', login: 'ada@example.com', locked: true });
  await run(['token', 'create', '--user', 'U2', '--config', config]);
  const listed = await run(['token', 'list', '--user', 'U2', '--json', '--config', config]);
  t.equal((JSON.parse(listed.stdout) as unknown[]).length, 1);
  const limited = await run(['token', 'list', '--limit', '1', '--json', '--config', config]);
  t.equal((JSON.parse(limited.stdout) as unknown[]).length, 1);
});

t.test('a command that asks the admin port needs a fixed one', async (t) => {
  for (const command of ['healthcheck', 'reload'])
    t.match(await run([command, '--config', config]), {
      code: 1,
      stderr: /admin\.port in \S+latchkey\.yaml is 0, so the server chooses a free port.*; set a fixed port/,
    });
});
