import { execFile } from 'node:child_process';
import {
  cpSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { join, resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import { promisify } from 'node:util';
import t from 'tap';
import { parse } from 'yaml';
import type { Refusal } from '../../src/domain/refusal.js';
import { refusalReply } from '../../src/http/replies.js';
import { temporaryFolder } from '../helpers/latchkey.js';
import { nightly } from '../helpers/nightly.js';

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

t.test('a release fills in its repository, its image and the digest of the base', nightly, async (t) => {
  const release = read('.github/workflows/release.yml');
  type Step = { run?: string; with?: { tags?: string } };
  type Job = 'test' | 'image' | 'chart' | 'package';
  const { jobs } = parse(release) as { jobs: Record<Job, { steps: Step[] }> };
  const runs = (job: Job) => jobs[job].steps.map(({ run = '' }) => run).join('\n');
  const tags = jobs.image.steps.flatMap((step) => step.with?.tags ?? []).at(-1);
  t.match(tags, /:\$\{\{ env\.VERSION \}\}$/, 'appVersion has no "v" prefix');
  t.match(runs('image'), '"VERSION=${GITHUB_REF_NAME#v}"');
  t.match(runs('test'), /npm pkg set repository[^]*npm pack/);
  t.match(runs('package'), /npm publish/);

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
      .filter(
        (line) =>
          !/^npm (?:pack|install|publish)|^latchkey|^helm|^kind|^timeout|^echo "\$TOKEN"|^\.ci|^test /.test(
            line,
          ),
      );
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

t.test('each action of a workflow is pinned, and only one job of a release has an identity', async (t) => {
  for (const file of ['ci', 'release']) {
    const used = [...read(`.github/workflows/${file}.yml`).matchAll(/uses: (.*)/g)].map(([, action = '']) => action);
    t.ok(used.length > 2);
    t.same(used.filter((action) => !/@[0-9a-f]{40} # v[\d.]+$/.test(action)), [], file);
  }
  const { jobs } = parse(read('.github/workflows/release.yml')) as { jobs: Record<string, { permissions?: object; steps: object[] }> };
  const identified = Object.entries(jobs).filter(([, { permissions = {} }]) => 'id-token' in permissions);
  t.same(identified.map(([name]) => name), ['package']);
  t.notMatch(JSON.stringify(jobs['package']?.steps), 'checkout', 'no code of the repository runs with it');
  t.equal(jobs['test']?.permissions, undefined);
}); // prettier-ignore

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

t.test('lock files hold the hash of every package, so that no registry can replace one', (t) => {
  for (const file of ['package-lock.json', 'bench/package-lock.json', 'scripts/openapi-types/package-lock.json', 'test/clients/package-lock.json', 'test/helm/package-lock.json', 'test/nightly/programs/package-lock.json']) {
    const { packages } = JSON.parse(readFileSync(file, 'utf8')) as { packages: Record<string, { link?: true; integrity?: string }> };
    const bare = Object.entries(packages).filter(([path, { link, integrity }]) => path !== '' && link !== true && integrity?.startsWith('sha512-') !== true);
    t.same(bare.map(([path]) => path), [], file);
  }
  t.end();
}); // prettier-ignore

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
    .filter((file) => file.endsWith('.ts') && !file.startsWith('nightly/'))
    .flatMap((file) => [...read(`test/${file}`).matchAll(/needPackages\(\s*\(\) =>([^;]*)\);/g)]);
  // The packages follow the checks, which are calls.
  const names = calls.flatMap(([, call = '']) => [
    ...call.replaceAll(/\w+\([^)]*\)/g, '').matchAll(/'([\w.+-]+)'/g),
  ]);
  t.ok(names.length > 20);
  for (const [, name = ''] of names) t.ok(listed.includes(name), name);
  t.end();
});

t.test('the package runs elsewhere', nightly, async (t) => {
  const folder = temporaryFolder(t);
  await shell('npm', ['pack', '--ignore-scripts', '--pack-destination', folder]);
  await shell('tar', ['-xzf', `latchkey-${version}.tgz`], { cwd: folder });
  const installed = join(folder, 'node_modules/latchkey');
  mkdirSync(join(folder, 'node_modules'));
  renameSync(join(folder, 'package'), installed);
  // The packages that it needs; the nightly run installs them.
  const packages = join(installed, 'node_modules');
  mkdirSync(join(packages, '@node-rs'), { recursive: true });
  for (const name of ['lmdb', '@node-rs/argon2'])
    symlinkSync(resolve('node_modules', name), join(packages, name));
  t.teardown(() => rmSync(packages, { recursive: true }));
  const command = join(installed, 'bin/latchkey.js');
  t.equal((await shell(process.execPath, [command, '--version'])).stdout, `${version}\n`);
  t.match((await shell(process.execPath, [command, 'schema'])).stdout, /"upstreams"/);
  const program = 'import("latchkey/verify").then((verify) => console.log(Object.keys(verify).join()))';
  const { stdout } = await shell(process.execPath, ['-e', program], { cwd: folder });
  t.match(stdout, /expressMiddleware,.*verifyAssertion/, 'upstreams can import it');
  t.ok(existsSync(join(installed, 'dist/verify/index.d.ts')), 'with types');
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

/** The files of a folder of the program, without the web page. */
function sourcesOf(folder: string): string[] {
  const files = readdirSync(folder, { recursive: true, encoding: 'utf8' });
  return files.filter((file) => /^(?!ui\/).*\.ts$/.test(file)).map((file) => join(folder, file));
}

/** The text of a call from its opening parenthesis to the closing one. */
function argumentsAt(source: string, start: number): string {
  for (let i = start, depth = 0; i < source.length; i++) {
    if (source[i] === '(') depth += 1;
    if (source[i] === ')' && --depth === 0) return source.slice(start, i + 1);
  }
  return '';
}

t.test('a page lists every message of the log at warn or above, with its level', async (t) => {
  const rows = ['docs/observability.md', 'docs/webhooks.md'].flatMap((page) => [
    ...read(page).matchAll(/^\| `([^`|]+)` +\| (info|warn|error|fatal) +\|/gm),
  ]);
  const listed = new Set(rows.map(([, msg, level]) => `${level}: ${msg}`));
  const logged = new Set<string>();
  for (const file of sourcesOf('src')) {
    const source = read(file);
    for (const call of source.matchAll(/\b(?:[lL]og\.(warn|error|fatal|info)|[lL]ogFault)(?=\()/g)) {
      const args = argumentsAt(source, call.index + call[0].length);
      const level = call[1] ?? 'error';
      const messages = [...args.matchAll(/'([^'\n]+)'/g)].map(([, text = '']) => text);
      // A message is a phrase; a single word is a value that selects one.
      const phrases = level === 'info' ? messages : messages.filter((text) => text.includes(' '));
      if (phrases.length === 0 && level !== 'info')
        t.match(args, /\bmessage\b/, `${file}: ${args} has a message, or passes one on`);
      for (const phrase of phrases) logged.add(`${level}: ${phrase}`);
    }
  }
  t.ok(logged.size > 50);
  const above = [...logged].filter((each) => !each.startsWith('info'));
  t.same(above.filter((each) => !listed.has(each)), [], 'not on a page');
  t.same([...listed].filter((each) => !logged.has(each)), [], 'no longer logged');
}); // prettier-ignore

t.test('docs/observability.md lists every reason of a refusal, with its status', async (t) => {
  const rows = read('docs/observability.md').matchAll(/^\| (`[a-z_`, ]+`) +\| (\d[\d, ]*?) +\|/gm);
  const listed = [...rows].flatMap(([, names = '', status = '']) =>
    [...names.matchAll(/`([a-z_]+)`/g)].map(([, name]) => `${name} ${status}`),
  );
  const types = read('src/domain/refusal.ts').matchAll(/(?:readonly refusal: |Tag =)([^;}]+)/g);
  const tags = [...types].flatMap(([, union = '']) => [...union.matchAll(/'([a-z_]+)'/g)].map(([, tag]) => tag));
  t.ok(tags.length > 30);
  const statusOf = (tag = '') =>
    refusalReply({ refusal: tag, detail: '', tokenId: '', expiredAt: 0, retryAfter: 1 } as unknown as Refusal).status;
  // A grant has the status of its endpoint.
  const expected = tags.map((tag) => (tag === 'grant' ? 'grant 400, 401, 403, 422' : `${tag} ${statusOf(tag)}`));
  t.same(listed.toSorted(), expected.toSorted());
}); // prettier-ignore

t.test('docs/observability.md lists every outcome of a login that the interface names', async (t) => {
  const [, row = ''] = /^\| `latchkey_logins_total`(.*)$/m.exec(read('docs/observability.md')) ?? [];
  const [, codes = ''] = /type GrantCode =([^;]+);/.exec(read('src/domain/refusal.ts')) ?? [];
  const named = [...codes.matchAll(/'([^']+)'/g)].map(([, code = '']) => code);
  t.ok(named.length > 5);
  for (const code of named) t.match(row, `\`${code}\``);
});

t.test('docs/design/threat-model.md names existing tests', async (t) => {
  const page = read('docs/design/threat-model.md');
  const section = page.slice(page.indexOf('## How attacks on OAuth'), page.indexOf('## What you must do'));
  const tests = read('test/endpoints/oidc.test.ts') + read('test/accounts/jwt.test.ts');
  const cells = section.split('\n').filter((line) => line.startsWith('| ')).map((row) => row.split('|').at(-2) ?? '');
  const names = cells.flatMap((cell) => [...cell.matchAll(/`([^`]+)`/g)].map(([, name = '']) => name));
  t.ok(names.length > 40);
  for (const name of names) {
    if (name.startsWith('test/')) t.ok(existsSync(name), name);
    else for (const part of name.split('...')) t.ok(tests.includes(part.trim()), `a row or a test: ${name}`);
  }
}); // prettier-ignore

t.test('a page names every command and every option', async (t) => {
  const files = readdirSync('src/commands/usage').map((file) => join('src/commands/usage', file));
  const source = [...files, 'src/cli.ts'].map(read).join('');
  const docs = readdirSync('docs').filter((file) => file.endsWith('.md'));
  const text = docs.map((file) => read(join('docs', file))).join('');
  const options = [...source.matchAll(/'(?:-\w, )?(--[a-z-]+)[ ']/g)].map(([, option = '']) => option);
  const commands = [...source.matchAll(/(?:new Command|withConfig)\(\s*'([a-z-]+)'/g)].map(([, name = '']) => name);
  t.ok(options.length > 40 && commands.length > 15);
  t.same([...new Set(options)].filter((option) => !text.includes(option)), [], 'options');
  const isNamed = (name: string) => text.includes(`latchkey ${name}`) || text.includes(`latchkey policy ${name}`);
  t.same(commands.filter((name) => name !== 'latchkey' && !isNamed(name)), [], 'commands');
}); // prettier-ignore
