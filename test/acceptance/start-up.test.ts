import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { directory } from '../helpers/fixture.js';
import { INSTALLED, run, start, temporaryFolder, writeConfig } from '../helpers/latchkey.js';

/** Makes a process record which files of the program, and which packages, it loads. */
function recorder(file: string): NodeJS.ProcessEnv {
  const preload = `import fs from 'node:fs';
  import Module, { syncBuiltinESMExports } from 'node:module';
  const { readFileSync } = fs;
  const { _load: load } = Module;
  const note = (name) => fs.appendFileSync(${JSON.stringify(file)}, name + '\\n');
  fs.readFileSync = (path, ...rest) => {
    const [, name] = /dist.program.(\\S+)[.]cjs$/.exec(String(path)) ?? [];
    if (name !== undefined) note(name);
    return readFileSync(path, ...rest);
  };
  Module._load = (name, parent, ...rest) => {
    if (!Module.isBuiltin(name) && !parent?.filename?.includes('node_modules')) note(name);
    return load(name, parent, ...rest);
  };
  syncBuiltinESMExports();`;
  return { NODE_OPTIONS: `--import=data:text/javascript,${encodeURIComponent(preload)}` };
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

  const parsing = ['latchkey'];
  const reading = [...parsing, 'schemas'];
  const storing = [...reading, 'lmdb'];
  await t.test('serve', async (t) => {
    const loaded = await record(async (env) => (await start(t, config, { env, program: INSTALLED })).stop());
    t.same(loaded, storing.toSorted());
  });
  await t.test('serve with a gRPC port', async (t) => {
    const grpc = { grpc: { port: 0 }, host: '127.0.0.1', port: 0 };
    const other = writeConfig(temporaryFolder(t), { upstream: 'http://127.0.0.1:1', decision: grpc });
    const loaded = await record(async (env) => (await start(t, other, { env, program: INSTALLED })).stop());
    t.same(loaded, [...storing, 'grpc-grpc-js', 'protobufjs-light'].toSorted());
  });
  const commands: readonly (readonly [string[], string[]])[] = [
    [['--help'], parsing],
    [['token', 'list', '--help'], parsing],
    [['check', '--config', config], reading],
    [['user', 'show', 'engineer@example.com', '--config', config], storing],
    [['user', 'list', '--config', config], storing],
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

t.test('the stack of an error names the sources', async (t) => {
  const config = writeConfig(temporaryFolder(t), { upstream: 'http://127.0.0.1:1' });
  const { stderr } = await run(['--debug', 'user', 'list', '--config', config], { program: INSTALLED });
  t.match(stderr, /^ +at withStore \(src\/commands\/with-store\.ts:\d+:\d+\)$/m);
});

t.test(
  'refuses an embedded store whose files are damaged, instead of crashing or starting anew',
  async (t) => {
    const folder = temporaryFolder(t);
    const config = writeConfig(folder, { upstream: 'http://127.0.0.1:1' }, { customers: [] });
    t.match(await run(['apply', '--config', config]), { code: 0 });
    for (const [name, content, stderr] of [
      [
        'opening.mdb',
        'x'.repeat(16_384),
        /: opening\.mdb is not an LMDB file.*; stop every process .*, and remove opening\.mdb/,
      ],
      ['opening.mdb', 'x', /: opening\.mdb is not an LMDB file/],
      ['data.mdb', '', /: data\.mdb is empty, as a full disk leaves it; restore it from a backup/],
    ] as const) {
      const file = join(folder, 'data', name);
      const before = readFileSync(file);
      writeFileSync(file, content);
      for (const args of [['serve'], ['user', 'list']])
        t.match(await run([...args, '--config', config]), { code: 1, stderr }, `${args[0]}: ${name}`);
      writeFileSync(file, before);
    }
    t.match(await run(['user', 'list', '--config', config]), { code: 0 }, 'the store itself is unharmed');
  },
);
