import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, openSync } from 'node:fs';
import t from 'tap';
import { startFixture } from '../helpers/fixture.js';
import { run } from '../helpers/latchkey.js';
import { programOf } from '../loader/program.mjs';

/** Runs a command whose standard output is a full disk, or a pipe that nobody reads. */
async function runInto(output: '/dev/full' | 'closed pipe', args: readonly string[]) {
  const file = output === 'closed pipe' ? null : openSync(output, 'w');
  const child = spawn(process.execPath, [programOf(), ...args], {
    stdio: ['ignore', file ?? 'pipe', 'pipe'],
  });
  if (file !== null) closeSync(file);
  child.stdout?.destroy();
  let stderr = '';
  child.stderr?.on('data', (chunk: Buffer) => (stderr += chunk.toString()));
  const [code] = (await once(child, 'close')) as [number | null];
  return { code, stderr };
}

t.test('a command whose output cannot be written', async (t) => {
  const { configFile, token } = await startFixture(t);
  await token('superuser');
  const config = ['--config', configFile];
  const commands = [
    ['--help'],
    ['schema'],
    ['check', ...config],
    ['user', 'list', ...config],
    ['token', 'list', '--json', ...config],
  ];
  for (const args of commands) {
    await t.test(args.slice(0, 2).join(' '), async (t) => {
      t.same(await runInto('/dev/full', args), {
        code: 1,
        stderr: 'latchkey: standard output cannot be written: no space left on device (ENOSPC)\n',
      });
      t.same(await runInto('closed pipe', args), { code: 141, stderr: '' });
    });
  }
  t.match(await runInto('/dev/full', ['--debug', 'schema']), { code: 1, stderr: /\n\s+at / });
});

t.test('a new token whose secret cannot be printed is named', async (t) => {
  const { configFile } = await startFixture(t);
  const config = ['--config', configFile];
  const tokens = async () => {
    const { stdout } = await run(['token', 'list', '--user', 'superuser@example.com', '--json', ...config]);
    return (JSON.parse(stdout) as { id: string }[]).map(({ id }) => id);
  };
  const lost = (reason: string, id = '') =>
    `latchkey: standard output cannot be written: ${reason}; token ${id} was created, but its secret is lost; revoke it with "latchkey token revoke ${id}"\n`;

  const create = ['token', 'create', '--user', 'superuser@example.com', ...config];
  const created = await runInto('/dev/full', create);
  const [first = ''] = await tokens();
  t.equal(created.code, 1);
  t.ok(created.stderr.endsWith(lost('no space left on device (ENOSPC)', first)), created.stderr);

  const rotated = await runInto('closed pipe', ['token', 'rotate', first, '--json', ...config]);
  const replacement = (await tokens()).find((id) => id !== first);
  t.match(rotated, { code: 1, stderr: lost('broken pipe (EPIPE)', replacement) });
});
