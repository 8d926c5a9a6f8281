import { spawn } from 'node:child_process';
import { copyFileSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import t from 'tap';
import { blocksOf } from '../docs/markdown.js';
import { PASSWORD, startFixture } from '../helpers/fixture.js';
import { nightly } from '../helpers/nightly.js';

const EXAMPLE = 'examples/client';
const TSC = resolve('node_modules/typescript/bin/tsc');

/** Runs a Node program to its end. */
async function node(cwd: string, args: readonly string[], env: NodeJS.ProcessEnv = {}) {
  const child = spawn(process.execPath, args, { cwd, env: { ...process.env, ...env } });
  let output = '';
  for (const stream of [child.stdout, child.stderr])
    stream.on('data', (chunk: Buffer) => (output += chunk.toString()));
  const code = await new Promise<number | null>((done) => child.once('close', done));
  return { code, output };
}

/** Copies the example into the repository, so that it finds the installed packages. */
function copyOf(t: { testdir: () => string }): string {
  const folder = t.testdir();
  for (const name of readdirSync(EXAMPLE).filter((each) => /\.(ts|json)$/.test(each)))
    copyFileSync(join(EXAMPLE, name), join(folder, name));
  return folder;
}

t.test("docs/openapi.json and the client's types match the code", async (t) => {
  const { code, output } = await node('.', ['scripts/interface-document.mjs', '--check']);
  t.equal(output, '');
  t.equal(code, 0);
});

t.test('the client compiles and does what its page says', async (t) => {
  const { url } = await startFixture(t);
  const folder = copyOf(t);
  t.same(await node(folder, [TSC]), { code: 0, output: '' });
  const env = { LATCHKEY_URL: url, LATCHKEY_LOGIN: 'superuser@example.com', LATCHKEY_PASSWORD: PASSWORD };
  const { code, output } = await node(folder, ['dist/main.js'], env);
  t.equal(code, 0, output);
  const page = blocksOf(`${EXAMPLE}/README.md`).find(({ kind }) => kind === 'text')?.text ?? '';
  t.match(page, /^logged in as Ada, superuser of Example$/m);
  const expected = page.replace('Ada', 'superuser').replace('Example', 'One');
  t.equal(output.replace(/at \S+ from/, 'at ... from').trim(), expected.trim());
  t.equal((await node(folder, ['dist/main.js'], { ...env, LATCHKEY_PASSWORD: 'wrong' })).code, 1);
});

t.test('what the interface lacks does not compile', nightly, async (t) => {
  const folder = copyOf(t);
  const file = join(folder, 'main.ts');
  const right = readFileSync(file, 'utf8');
  const wrong = [
    ["error.code === 'invalid_scope'", "error.code === 'invalid_scop'"],
    ["latchkey.GET('/tokens/self'", "latchkey.GET('/token/self'"],
    ['user: login, password }', 'user: login }'],
    ['data.user.role', 'data.user.rank'],
    ['self.data.ip', 'self.data.access_token'],
  ] as const;
  for (const [from] of wrong) t.ok(right.includes(from), from);
  writeFileSync(
    file,
    wrong.reduce((text, [from, to]) => text.replace(from, to), right),
  );
  const { code, output } = await node(folder, [TSC, '--noEmit']);
  t.not(code, 0);
  t.ok(output.split('\n').filter((line) => line.includes('error TS')).length >= wrong.length, output);
});
