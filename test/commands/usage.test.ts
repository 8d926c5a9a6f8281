import { spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { INSTALLED, run, temporaryFolder, writeConfig } from '../helpers/latchkey.js';

const folder = temporaryFolder(t);
const config = writeConfig(
  folder,
  { upstream: 'http://127.0.0.1:1' },
  { customers: [{ id: 'C1', name: 'One' }] },
);
t.match(await run(['apply', '--config', config]), { code: 0 });

t.test('a backup that cannot be written names its file, and needs the path of one', async (t) => {
  const file = join(folder, 'backup.jsonl');
  const args = ['--fsize=64', process.execPath, INSTALLED, 'store', 'backup', file, '--config', config];
  const { status, stderr } = spawnSync('prlimit', args, { encoding: 'utf8' });
  t.match(
    { status, stderr },
    { status: 1, stderr: `latchkey: ${file} cannot be written: the file is too large (EFBIG)\n` },
  );
  const before = readdirSync('.');
  for (const name of ['', '-'])
    t.match(await run(['store', 'backup', name, '--config', config]), {
      code: 2,
      stdout: '',
      stderr: /store backup: pass the path of a file/,
    });
  t.same(readdirSync('.'), before, 'nothing was written');
  t.notOk(existsSync(file));
});

t.test('init quotes paths, so that its commands can be pasted', async (t) => {
  const spaced = join(folder, "Ada's API");
  mkdirSync(spaced);
  const input = 'correct horse battery staple\n';
  const { stdout } = await run(['init', spaced, '--password-file', '-'], { input });
  const command = /latchkey (check --config .*)/.exec(stdout)?.[1] ?? '';
  t.match(
    spawnSync('sh', ['-c', `"$0" "$1" ${command}`, process.execPath, INSTALLED], { encoding: 'utf8' }),
    {
      status: 0,
      stdout: /latchkey\.yaml: ok\n$/,
    },
  );
});

t.test('help of a subcommand', async (t) => {
  for (const [args, usage] of [
    [['help', 'token', 'create'], 'Usage: latchkey token create '],
    [['help', 'token'], 'Usage: latchkey token '],
    [['help'], 'Usage: latchkey '],
  ] as const)
    t.ok((await run(args)).stdout.startsWith(usage), args.join(' '));
});

t.test('options with values that cannot be are wrong usage', async (t) => {
  const create = ['token', 'create', '--user', 'nobody', '--config', config];
  const mint = ['mint', '--as', 'ada'];
  for (const [args, stderr] of [
    [[...create, '--rate', '5'], /token create: --rate: expected a rate like 600\/1m/],
    [[...create, '--address', '10.0.0.1/8'], /token create: --address: expected an IP address/],
    [[...mint, '--path', '/x', '--method', 'GE T'], /mint --method: expected a registered HTTP method/],
    [[...mint, '--path', 'nopath'], /mint --path: the request target must start with "\/"/],
    [[...mint, '--path', '/x', '--request-id', 'a b'], /mint --request-id: expected visible ASCII/],
  ] as const)
    t.match(await run(args), { stdout: '', stderr }, args.join(' '));
  for (const args of [
    [...create, '--rate', '5'],
    [...create, '--address', 'x'],
    [...mint, '--path', 'nopath'],
  ])
    t.equal((await run(args)).code, 2, args.join(' '));
});

t.test('a command that asks the admin port needs a fixed one', async (t) => {
  for (const args of [['healthcheck'], ['policy', 'shadow']])
    t.match(await run([...args, '--config', config]), {
      code: 1,
      stderr: /admin\.port in \S+latchkey\.yaml is 0, so the server chooses a free port.*; set a fixed port/,
    });
});
