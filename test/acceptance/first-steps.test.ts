import { execFile } from 'node:child_process';
import { cpSync, writeFileSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import t from 'tap';
import { serveHttp } from '../helpers/http.js';
import { run, temporaryFolder } from '../helpers/latchkey.js';

/** The command that a new user runs. */
const BIN = resolve('bin/latchkey.js');

async function type(folder: string, args: readonly string[], program = BIN) {
  return new Promise<{ code: number; stdout: string; stderr: string }>((done) => {
    execFile(process.execPath, [program, ...args], { cwd: folder }, (error, stdout, stderr) =>
      done({ code: typeof error?.code === 'number' ? error.code : 0, stdout, stderr }),
    );
  });
}

/** Runs a command in this process, as in a folder. */
async function within(folder: string, args: readonly string[]) {
  const before = process.cwd();
  process.chdir(folder);
  try {
    return await run(args);
  } finally {
    process.chdir(before);
  }
}

const UPSTREAM = 'upstream: http://127.0.0.1:9\n';

t.test('finds the configuration in the folder, and its errors say what to write', async (t) => {
  const folder = temporaryFolder(t);
  const none = await type(folder, ['check']);
  t.match(none, {
    code: 2,
    stderr: 'latchkey: there is no latchkey.yaml in this folder; pass the configuration with --config FILE\n',
  });

  const rows = [
    [
      'a star',
      `${UPSTREAM}policy:\n  roles:\n    a: { allow: [*] }\n`,
      /^\S+:4:18: a value that begins with "\*" needs quotes: write "\*" or "\*:read"/,
    ],
    [
      'another column',
      `${UPSTREAM}policy:\n  roles:\n    a:\n     allow: ["*"]\n   b: { allow: ["*"] }\n`,
      /:6:1: wrong indentation; begin keys of one mapping in the same column/,
    ],
    ['a tab', `${UPSTREAM}\tlisten: 1\n`, /:2:1: a tab in the indentation; indent with spaces/],
    ['no colon', `${UPSTREAM}listen\n`, /:2:1: a ":" is missing in this line; write "key: value"/],
    [
      'two keys in a line',
      `${UPSTREAM}listen: host: a\n`,
      /:2:9: two keys on one line; write each "key: value" on its own line/,
    ],
    [
      'an at sign',
      'upstream: @foo\n',
      /:1:11: a value cannot begin with this character; put the value in quotes/,
    ],
    [
      'a shadow policy that is not there',
      `${UPSTREAM}policy_shadow: next.yaml\n`,
      /latchkey\.yaml:2:16: policy_shadow: file not found; write its path, relative to the folder of this file\n$/,
    ],
    ['an open quote', 'upstream: "abc\nlisten: 1\n', /:1:11: this quote is not closed/],
    [
      'braces for a parameter',
      `${UPSTREAM}routes:\n  - { path: "/x/{site}", action: "site:read" }\n`,
      /write the parameter as ":site", not "\{site\}"/,
    ],
  ] as const;
  for (const [name, yaml, stderr] of rows) {
      writeFileSync(join(folder, 'latchkey.yaml'), yaml);
      t.match(await within(folder, ['check']), { code: 1, stderr }, name);
  } // prettier-ignore
});

t.test('warns of settings that are valid but have no effect', async (t) => {
  const folder = temporaryFolder(t);
  const write = (name: string, text: string) => writeFileSync(join(folder, name), text);
  write(
    'latchkey.yaml',
    `${UPSTREAM}policy:\n  roles:\n    a: { allow: ["*"], deny: ["site:delete"] }\nroutes:\n  - { path: /a, action: site }\n`,
  );
  const unused = await within(folder, ['check']);
  t.match(unused, {
    code: 0,
    stderr: /:4: warning: policy\.roles\.a\.deny\.0: covers no action of any route, so it has no effect\n$/,
  });
  write('latchkey.yaml', 'upstream: http://localhost:8080\n');
  t.match(await within(folder, ['check']), {
    code: 0,
    stderr:
      /:1: warning: upstream: this upstream has the address of Latchkey itself \(listen\); write the address of/,
  });
  write('latchkey.yaml', `${UPSTREAM}directory: { file: d.yaml }\n`);
  write('d.yaml', 'customers: [{ id: C, name: C }]\nlegacy_keys:\n  - { customer_id: C, key: abcdefgh }\n');
  const readable = await within(folder, ['check']);
  t.match(readable, {
    code: 0,
    stderr: /d\.yaml:3: warning: a plain-text key in a file that other users can read/,
  });
});

t.test('an unreachable Redis is named in the error, with a remedy', async (t) => {
  const folder = temporaryFolder(t);
  const http = await serveHttp(t, (_req, res) => res.end());
  const other = new URL(http.url).host;
  const refused = '127.0.0.1:1: connection refused (ECONNREFUSED)';
  const rows = [
    ['127.0.0.1:1', 'url: "redis://u:secret@127.0.0.1:1"', refused],
    [
      'nowhere.invalid:6379',
      'url: "redis://u:secret@nowhere.invalid:6379"',
      /: .* \((?:ENOTFOUND|EAI_AGAIN)\)/,
    ],
    [
      '127.0.0.1:1',
      'cluster: ["127.0.0.1:1"], password: secret',
      `0 of 1 cluster nodes responded; ${refused}`,
    ],
    [
      '127.0.0.1:1',
      'sentinel: { master: m, nodes: ["127.0.0.1:1"] }, password: secret',
      `0 of 1 sentinels responded; ${refused}`,
    ],
    [other, `url: "redis://u:secret@${other}"`, 'the server does not speak the Redis protocol'],
  ] as const;
  for (const [address, settings, fault] of rows) {
    const file = join(folder, 'latchkey.yaml');
    writeFileSync(file, `${UPSTREAM}store: { type: redis, ${settings} }\n`);
    const told = await within(folder, ['user', 'list']);
    t.equal(told.code, 1);
    t.match(told.stderr, fault);
    t.match(told.stderr, `; check that Redis is running and that "store" in ${file} is correct\n`);
    t.notMatch(told.stderr, 'secret');
    const online = await within(folder, ['check', '--online']);
    t.equal(online.stderr.split(address).length, 2, 'reported once');
  }
});

t.test('explain has one blank line before the verdict on a malformed request', async (t) => {
  const folder = temporaryFolder(t);
  writeFileSync(join(folder, 'latchkey.yaml'), UPSTREAM);
  const { stdout } = await within(folder, ['explain', '--path', '/a b', '--anonymous']);
  t.match(stdout, /^GET \/a b\n\n {2}verdict {5}400 malformed\n/);
});

t.test('reports mistakes in flags', async (t) => {
  const folder = temporaryFolder(t);
  const rows = [
    [
      'a URL without its scheme',
      ['doctor', '--url', 'localhost:8080'],
      /'--url <url>' .* Did you mean http:\/\/localhost:8080\?/,
    ],
    ['a mistyped flag', ['serve', '--confg', 'x'], /unknown option '--confg' \(Did you mean --config\?\)/],
    [
      'a missing required flag',
      ['policy', 'diff'],
      /required option '--against <file>' not specified \(see latchkey policy diff --help\)\n$/,
    ],
    ['a mistyped subcommand', ['session', 'lst'], /unknown command 'lst' \(Did you mean list\?\)/],
    ['a mistyped command', ['chek'], /unknown command 'chek' \(Did you mean check\?\)/],
    ['an unknown command', ['tool'], /unknown command 'tool' \(see latchkey --help\)\n$/],
    ['an unknown subcommand', ['token', 'mend'], /unknown command 'mend' \(see latchkey token --help\)\n$/],
    ['no scheme', ['demo', '--upstream', '127.0.0.1:3000'], /Did you mean http:\/\/127\.0\.0\.1:3000\?/],
    ['an invalid URL', ['demo', '--upstream', 'a b'], /Expected a URL like http:\/\/127\.0\.0\.1:3000/],
    [
      'a file without its flag',
      ['check', 'latchkey.yaml'],
      /too many arguments.* \(see latchkey check --help\)\n$/,
    ],
    ['a bad port', ['demo', '--port', '99999'], /Expected a number from 0 to 65535; 0 picks a free port/],
  ] as const;
  for (const [name, args, stderr] of rows) {
    const told = await within(folder, args);
    t.match(told, { code: 2, stderr }, name);
    t.match(told.stderr, /^[^\n]+\n$/, `${name}: one line`);
  } // prettier-ignore
});

t.test('the installed command says why it cannot run', async (t) => {
  const folder = temporaryFolder(t);
  const install = (name: string, engines: string) => {
    const root = join(folder, name);
    cpSync('bin', join(root, 'bin'), { recursive: true });
    writeFileSync(join(root, 'package.json'), JSON.stringify({ type: 'module', engines: { node: engines } }));
    return join(root, 'bin/latchkey.js');
  };
  const { node } = process.versions;
  const tooOld = { code: 1, stderr: `latchkey: needs Node >=99.1.0, and this is Node ${node}\n` };
  const old = install('old', '>=99.1.0');
  t.match(await type(folder, ['check'], old), tooOld);
  for (const script of ['scripts/nightly.mjs', 'test/loader/run.mjs']) {
    cpSync(dirname(script), join(dirname(old), '..', dirname(script)), { recursive: true });
    t.match(await type(folder, [], join(dirname(old), '..', script)), tooOld, `${script} of npm test`);
  }
  for (const least of ['>=20.18.1', `>=${node}`, '>=9.99.99']) {
    const unbuilt = await type(folder, ['check'], install(`unbuilt ${least}`, least));
    t.match(unbuilt, { code: 1, stderr: 'latchkey: not built yet; run "npm run build" first\n' }, least);
  }
});
