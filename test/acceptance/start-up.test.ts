import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { directory } from '../helpers/fixture.js';
import { INSTALLED, run, start, temporaryFolder, writeConfig } from '../helpers/latchkey.js';

/** Makes a process record which packages the code in `dist` loads. */
function recorder(file: string): NodeJS.ProcessEnv {
  const hook = `import { appendFileSync } from 'node:fs';
  export async function resolve(name, context, next) {
    if (/^[a-z@]/.test(name) && !/^(node|file|data):/.test(name) && !context.parentURL?.includes('/node_modules/'))
      appendFileSync(${JSON.stringify(file)}, name + '\\n');
    return next(name, context);
  }`;
  const asUrl = (code: string) => `data:text/javascript,${encodeURIComponent(code)}`;
  const register = `import { register } from 'node:module'; register(${JSON.stringify(asUrl(hook))});`;
  // Newer Node versions deprecate register(); its replacement does not exist in Node 20.
  return { NODE_OPTIONS: `--disable-warning=DEP0205 --import=${asUrl(register)}` };
}

t.test('a command loads only the packages it needs', async (t) => {
  const folder = temporaryFolder(t);
  const config = writeConfig(folder, { upstream: 'http://127.0.0.1:1' }, await directory());
  let count = 0;
  const record = async (work: (env: NodeJS.ProcessEnv) => Promise<unknown>) => {
    const file = join(folder, `loaded-${(count += 1)}`);
    await work(recorder(file));
    return [...new Set(readFileSync(file, 'utf8').trim().split('\n'))].toSorted();
  };

  const reading = ['commander', 'nanoid', 'yaml', 'zod'];
  const storing = [...reading, 'lmdb', 'lru-cache', 'p-limit'];
  const serving = [...storing, 'http-proxy', 'pino', 'prom-client'];
  await t.test('serve', async (t) => {
    const loaded = await record(async (env) => (await start(t, config, { env, program: INSTALLED })).stop());
    t.same(loaded, serving.toSorted());
  });
  await t.test('serve with a gRPC port', async (t) => {
    const grpc = { grpc: { port: 0 }, host: '127.0.0.1', port: 0 };
    const other = writeConfig(temporaryFolder(t), { upstream: 'http://127.0.0.1:1', decision: grpc });
    const loaded = await record(async (env) => (await start(t, other, { env, program: INSTALLED })).stop());
    t.same(loaded, [...serving, '@grpc/grpc-js', 'protobufjs/light.js'].toSorted());
  });
  const commands: readonly (readonly [string[], string[]])[] = [
    [['--help'], ['commander']],
    [['token', 'list', '--help'], ['commander']],
    [['completion', 'bash'], ['commander']],
    [['check', '--config', config], reading],
    [['user', 'show', 'engineer@example.com', '--config', config], storing],
    [
      ['user', 'list', '--config', config],
      [...storing, 'string-width'],
    ],
  ];
  for (const [args, packages] of commands) {
    await t.test(args.slice(0, 2).join(' '), async (t) => {
      const loaded = await record(async (env) =>
        t.match(await run(args, { env, program: INSTALLED }), { code: 0, stderr: '' }),
      );
      t.same(loaded, packages.toSorted());
    });
  }
});
