import { execFileSync } from 'node:child_process';
import { chmodSync, existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import t from 'tap';
import { parse, parseDocument, stringify } from 'yaml';
import { loadConfig } from '../../src/config/load.js';
import { temporaryFolder } from '../helpers/latchkey.js';
import { startRedis } from '../helpers/redis.js';

interface Block {
  readonly kind: string;
  readonly text: string;
}

function blocksOf(file: string): Block[] {
  const blocks = [...readFileSync(file, 'utf8').matchAll(/```(\w+)\n([\s\S]*?)```/g)];
  return blocks.map(([, kind = '', text = '']) => ({ kind, text }));
}

t.test('docs/commands.md: files are written, lines are run, and what they print is what it says', async (t) => {
  const folder = temporaryFolder(t);
  writeFileSync(join(folder, 'latchkey'), `#!/bin/sh\nexec '${process.execPath}' '${resolve('dist/cli.js')}' "$@"\n`);
  chmodSync(join(folder, 'latchkey'), 0o755);
  const env = { ...process.env, PATH: `${folder}:${process.env['PATH']}` };
  const counts = { yaml: 0, sh: 0, text: 0 };
  let printed = '';
  for (const { kind, text } of blocksOf('docs/commands.md')) {
    if (kind === 'yaml') {
      const [, name = ''] = /^# (\S+)\n/.exec(text) ?? [];
      t.match(name, /\.yaml$/, 'a file says its name');
      writeFileSync(join(folder, name), text);
    } else if (kind === 'sh') {
      printed = execFileSync('bash', ['-euo', 'pipefail', '-c', text], { cwd: folder, env, stdio: ['ignore', 'pipe', 'pipe'] }).toString();
      t.pass(text);
    } else if (kind === 'text') t.equal(printed, text);
    else t.fail(`a block of ${kind} is not run`);
    counts[kind as keyof typeof counts] += 1;
  }
  t.ok(counts.yaml >= 3 && counts.sh >= 6 && counts.text >= 2, JSON.stringify(counts));
}); // prettier-ignore

t.test('docs/storage.md: a store is moved, backed up and restored by its lines', async (t) => {
  const folder = temporaryFolder(t);
  const { url } = await startRedis(t);
  const latchkey = join(folder, 'latchkey');
  writeFileSync(latchkey, `#!/bin/sh\nexec '${process.execPath}' '${resolve('dist/cli.js')}' "$@"\n`);
  chmodSync(latchkey, 0o755);
  const upstream = 'upstream: http://127.0.0.1:3000\n';
  writeFileSync(join(folder, 'lmdb.yaml'), `${upstream}store: { type: lmdb, path: ./a }\n`);
  writeFileSync(join(folder, 'latchkey.yaml'), `${upstream}store: { type: lmdb, path: ./a }\n`);
  writeFileSync(join(folder, 'redis.yaml'), `${upstream}store: { type: redis, url: "${url}" }\n`);
  writeFileSync(join(folder, 'empty.yaml'), `${upstream}store: { type: lmdb, path: ./b }\n`);
  writeFileSync(join(folder, 'directory.yaml'), 'customers: [{ id: C1, name: One }]\n');
  const env = { ...process.env, PATH: `${folder}:${process.env['PATH']}` };
  const sh = (text: string) =>
    execFileSync('bash', ['-euo', 'pipefail', '-c', text], { cwd: folder, env, stdio: ['ignore', 'pipe', 'pipe'] }).toString();
  sh('latchkey apply --config lmdb.yaml -f directory.yaml');
  const blocks = blocksOf('docs/storage.md').filter(({ kind }) => kind === 'sh');
  t.equal(blocks.length, 1);
  t.match(sh(blocks[0]?.text ?? ''), /1 records copied.*backup.jsonl: 1 records.*1 records restored/s);
}); // prettier-ignore

t.test('docs/accounts.md: the configuration passes', async (t) => {
  const [block, ...more] = blocksOf('docs/accounts.md');
  t.equal(more.length, 0);
  const file = join(temporaryFolder(t), 'latchkey.yaml');
  writeFileSync(file, `upstream: http://127.0.0.1:3000\n${block?.text}`);
  t.same(loadConfig(file).config.directory, {
    file: null,
    http: { url: 'http://127.0.0.1:4000/', timeout: 2000 },
  });
});

t.test('docs/tls.md: the configurations pass', async (t) => {
  const blocks = blocksOf('docs/tls.md');
  t.equal(blocks.length, 2);
  const file = join(temporaryFolder(t), 'latchkey.yaml');
  for (const { text } of blocks) {
    writeFileSync(file, `upstream: http://127.0.0.1:3000\n${text}`);
    t.match(loadConfig(file).config.listen.tls, {
      cert: /^\/.*\/tls\/tls\.crt$/,
      key: /^\/.*\/tls\/tls\.key$/,
    });
  }
});

t.test('links between the pages lead somewhere', async (t) => {
  for (const page of ['README.md', 'docs/accounts.md', 'docs/commands.md', 'docs/judging.md', 'docs/operating.md', 'docs/storage.md', 'docs/scale.md', 'docs/interface.md', 'docs/limits.md', 'docs/audit.md', 'docs/ui.md', 'docs/threat-model.md', 'docs/tls.md', 'SECURITY.md', 'examples/account-source/README.md']) {
    const links = [...readFileSync(page, 'utf8').matchAll(/\]\((?!https?:)([^)#]*)(?:#([^)]*))?\)/g)];
    for (const [, path = '', anchor] of links) {
      const target = path === '' ? page : join(page, '..', path);
      const text = readFileSync(target, 'utf8');
      if (anchor === undefined) t.pass(`${page} to ${target}`);
      else {
        const anchors = [...text.matchAll(/^#+ (.*)$/gm)].map(([, heading = '']) =>
          heading.toLowerCase().replace(/[^\w\- ]/g, '').replaceAll(' ', '-'),
        );
        t.ok(anchors.includes(anchor), `${page} to ${target}#${anchor}`);
      }
    }
  }
}); // prettier-ignore

t.test('docs/limits.md: each default is that of the schema', async (t) => {
  const folder = temporaryFolder(t);
  const file = join(folder, 'latchkey.yaml');
  const rows = [...readFileSync('docs/limits.md', 'utf8').matchAll(/^\| `([a-z_.*]+)` +\| `([^`]+)`/gm)];
  t.ok(rows.length >= 20);
  const read = (text: string) => {
    writeFileSync(file, text);
    return loadConfig(file).config;
  };
  const upstreams = { store: { type: 'lmdb' }, upstreams: { api: { url: 'http://127.0.0.1:3000' } } };
  const defaults = read(stringify(upstreams));
  const another = (value: string) => {
    if (/^\d+$/.test(value)) return Number(value) + 1;
    if (value.endsWith('B')) return '48KiB';
    return value === '12h' ? '13h' : '7m';
  };
  for (const [, setting = '', value = ''] of rows) {
    const path = setting.replace('*', 'api').split('.');
    const document = parseDocument(stringify(upstreams));
    document.setIn(path, parse(value) as unknown);
    t.same(read(String(document)), defaults, `${setting}: ${value}`);
    if (value === 'null') continue;
    document.setIn(path, another(value));
    t.notSame(read(String(document)), defaults, `${setting} is a setting`);
  }
}); // prettier-ignore

t.test('docs/audit.md names each event that there is, and its configuration passes', async (t) => {
  const page = readFileSync('docs/audit.md', 'utf8');
  const source = readFileSync('src/domain/audit.ts', 'utf8');
  const events = [...source.matchAll(/\| '([a-z_]+\.[a-z_]+)'/g)].map(([, name = '']) => name);
  t.ok(events.length > 15);
  for (const event of events) t.match(page, `| \`${event}\``, event);
  const file = join(temporaryFolder(t), 'latchkey.yaml');
  writeFileSync(file, `upstream: http://127.0.0.1:3000\n${blocksOf('docs/audit.md')[0]?.text}`);
  t.match(loadConfig(file).config.audit, { to: /audit.jsonl$/, required: true });
});

t.test('SECURITY.md names tests that exist', async (t) => {
  const files = [...readFileSync('SECURITY.md', 'utf8').matchAll(/`(test\/[^`]+)`/g)].map(([, file = '']) => file);
  t.ok(files.length > 15);
  for (const file of new Set(files)) t.ok(existsSync(file), file);
}); // prettier-ignore
