import { execFile } from 'node:child_process';
import { cpSync, existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import { promisify } from 'node:util';
import t from 'tap';
import { parse } from 'yaml';
import { temporaryFolder } from '../helpers/latchkey.js';

/** Checks that values in several files agree, and that what is published works elsewhere. */
const read = (file: string) => readFileSync(file, 'utf8');
const shell = promisify(execFile);
const { version, engines } = JSON.parse(read('package.json')) as {
  version: string;
  engines: { node: string };
};

t.test('the version is the same everywhere', async (t) => {
  const chart = parse(read('helm/latchkey/Chart.yaml')) as { version: string; appVersion: string };
  t.match(chart, { version, appVersion: version });
  t.match(read('Dockerfile'), `image.version="${version}"`);
});

t.test('a release fills in its repository, its image and the digest of the base', async (t) => {
  const release = read('.github/workflows/release.yml');
  type Step = { run?: string; with?: { tags?: string } };
  type Job = 'package' | 'image' | 'chart';
  const { jobs } = parse(release) as { jobs: Record<Job, { steps: Step[] }> };
  const runs = (job: Job) => jobs[job].steps.map(({ run = '' }) => run).join('\n');
  const [tags] = jobs.image.steps.flatMap((step) => step.with?.tags ?? []);
  t.match(tags, /:\$\{\{ env\.VERSION \}\}$/, 'appVersion has no "v" prefix');
  t.match(runs('image'), '"VERSION=${GITHUB_REF_NAME#v}"');
  t.match(runs('package'), /npm pkg set repository[^]*npm publish --provenance/);

  const folder = temporaryFolder(t);
  for (const file of ['Dockerfile', 'package.json', 'helm/latchkey/Chart.yaml', 'helm/latchkey/values.yaml'])
    cpSync(file, join(folder, file));
  // The registry's answer.
  writeFileSync(join(folder, 'docker'), '#!/bin/sh\necho sha256:0123\n', { mode: 0o755 });
  const env = {
    ...process.env,
    PATH: `${folder}:${process.env['PATH']}`,
    GITHUB_REPOSITORY: 'Acme/Latchkey',
    GITHUB_REF_NAME: `v${version}`,
    GITHUB_ENV: join(folder, 'env'),
  };
  const steps = Object.values(jobs).flatMap((job) => job.steps.map(({ run = '' }) => run));
  for (const step of steps) {
    const lines = step
      .split('\n')
      .filter((line) => !/^npm (?:config|publish)|^helm|^echo "\$TOKEN"|^\.ci|^test /.test(line));
    await shell('bash', ['-ec', lines.join('\n')], { cwd: folder, env });
  }
  const file = (name: string) => readFileSync(join(folder, name), 'utf8');
  const home = 'https://github.com/Acme/Latchkey';
  t.match(JSON.parse(file('package.json')), {
    repository: { type: 'git', url: `git+${home}.git` },
    homepage: `${home}#readme`,
    bugs: { url: `${home}/issues` },
  });
  t.match(parse(file('helm/latchkey/Chart.yaml')), {
    home,
    sources: [home],
    icon: `https://raw.githubusercontent.com/Acme/Latchkey/v${version}/src/ui/icon.svg`,
  });
  t.match(parse(file('helm/latchkey/values.yaml')), { image: { repository: 'ghcr.io/acme/latchkey' } });
  t.equal(file('env'), `IMAGE=ghcr.io/acme/latchkey\nVERSION=${version}\n`);
  const bases = file('Dockerfile').match(/^FROM .*node:.*$/gm) ?? [];
  t.ok(bases.length > 0);
  for (const base of bases) t.match(base, /node:[\w.-]+@sha256:0123 AS /);
  t.ok(existsSync('src/ui/icon.svg'));
});

t.test('Node versions agree', async (t) => {
  const { jobs } = parse(read('.github/workflows/ci.yml')) as {
    jobs: { suite: { strategy: { matrix: { node: number[] } } } };
  };
  const tested = jobs.suite.strategy.matrix.node;
  t.equal(
    Math.min(...tested),
    Number.parseInt(engines.node.slice('>='.length), 10),
    'the oldest version is tested',
  );
  t.ok(tested.includes(Number(read('.nvmrc'))));
});

t.test('the development container has what the tests start', async (t) => {
  const listed = /^packages="([^"]*)"/m.exec(read('.ci/run'))?.[1] ?? '';
  const installed =
    /--no-install-recommends \\\n([^&]*) \\\n/.exec(read('.devcontainer/Dockerfile'))?.[1] ?? '';
  const names = (text: string) => text.split(/[\s\\]+/).filter((name) => name !== '');
  t.ok(names(listed).length > 10);
  t.same(names(installed), names(listed));
});

t.test('.ci/run installs the Debian packages that tests need', (t) => {
  const listed = /^packages="([^"]*)"/m.exec(read('.ci/run'))?.[1]?.split(/\s+/) ?? [];
  const calls = readdirSync('test', { recursive: true, encoding: 'utf8' })
    .filter((file) => file.endsWith('.ts'))
    .flatMap((file) => [...read(`test/${file}`).matchAll(/needPackages\(\s*\(\) =>([^;]*)\);/g)]);
  // The packages follow the checks, which are calls.
  const names = calls.flatMap(([, call = '']) => [
    ...call.replaceAll(/\w+\([^)]*\)/g, '').matchAll(/'([\w.+-]+)'/g),
  ]);
  t.ok(names.length > 20);
  for (const [, name = ''] of names) t.ok(listed.includes(name), name);
  t.end();
});

t.test('the package installs elsewhere and runs', async (t) => {
  const folder = temporaryFolder(t);
  await shell('npm', ['pack', '--ignore-scripts', '--pack-destination', folder]);
  const install = [
    'install',
    '--prefix',
    folder,
    '--prefer-offline',
    '--no-audit',
    '--no-fund',
    '--ignore-scripts',
  ];
  await shell('npm', [...install, join(folder, `latchkey-${version}.tgz`)]);
  const command = join(folder, 'node_modules/.bin/latchkey');
  t.equal((await shell(command, ['--version'])).stdout, `${version}\n`);
  t.match((await shell(command, ['schema'])).stdout, /"upstreams"/);
  const program = 'import("latchkey/verify").then((verify) => console.log(Object.keys(verify).join()))';
  const { stdout } = await shell(process.execPath, ['-e', program], { cwd: folder });
  t.match(stdout, /expressMiddleware,.*verifyAssertion/, 'upstreams can import it');
  t.ok(existsSync(join(folder, 'node_modules/latchkey/dist/verify/index.d.ts')), 'with types');
});

t.test('an error that no test catches fails its file', async (t) => {
  const file = join(temporaryFolder(t), 'stray.test.mjs');
  const tap = pathToFileURL(resolve('node_modules/.cache/tests/node_modules/@tapjs/tap.js')).href;
  for (const stray of [
    `void Promise.reject(new Error('stray'))`,
    `setTimeout(() => { throw new Error('stray'); })`,
  ]) {
    const lines = [
      `import t from ${JSON.stringify(tap)};`,
      `t.test('begins it', async () => { ${stray}; await new Promise((done) => setTimeout(done, 50)); });`,
      `t.test('another', async (t) => { t.pass(); });`,
    ];
    writeFileSync(file, lines.join('\n'));
    const env = { ...process.env, TAP: '1' };
    const { code, stdout } = (await shell(process.execPath, [file], { env }).catch(
      (error: unknown) => error,
    )) as { code?: number; stdout: string };
    t.equal(code, 1, stray);
    t.match(stdout, /not ok \d+ - stray/, stray);
  }
});
