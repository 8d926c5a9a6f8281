import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { parse, parseDocument, stringify } from 'yaml';
import { loadConfig } from '../../src/config/load.js';
import { temporaryFolder } from '../helpers/latchkey.js';
import { endpointRoutes } from '../../src/policy/own-endpoints.js';
import { blocksOf, pages } from './markdown.js';

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

t.test('docs/storage.md names each key in Redis', async (t) => {
  const page = readFileSync('docs/storage.md', 'utf8');
  const source = readdirSync('src/store', { recursive: true, encoding: 'utf8' })
    .filter((file) => /^redis.*\.ts$/.test(file))
    .map((file) => readFileSync(join('src/store', file), 'utf8'))
    .join('');
  const keys = new Set([...source.matchAll(/\bP\('([a-z_:]+)'/g)].map(([, key = '']) => key));
  t.ok(keys.size > 12, [...keys].join(' '));
  for (const key of keys) t.ok(page.includes(`\`${key}`), key);
});

t.test('docs/interface.md names each own endpoint', async (t) => {
  const page = readFileSync('docs/interface.md', 'utf8');
  const routes = endpointRoutes({ tokenEndpoints: 'session', page: '/_latchkey/' });
  const endpoints = routes.filter(({ endpoint }) => endpoint !== undefined);
  t.ok(endpoints.length > 10);
  for (const { path, methods = [], endpoint } of endpoints) {
    // The page without its slash is sent to the page, and its files are named by a digest.
    if (endpoint?.name === 'show_page' || endpoint?.name === 'show_page_asset') continue;
    t.match(page, `\`${methods[0]} ${path}\``);
  }
});

t.test('each metric that a page names is there', async (t) => {
  const sources = readdirSync('src', { recursive: true, encoding: 'utf8' }).filter((file) =>
    file.endsWith('.ts'),
  );
  const source = sources.map((file) => readFileSync(join('src', file), 'utf8')).join('');
  const named = pages().flatMap((page) => {
    const found = readFileSync(page, 'utf8').matchAll(/`(latchkey_[a-z_]+?)(?:_bucket|_sum|_count)?[`{]/g);
    return [...found].map(([, name = '']) => [page, name] as const);
  });
  t.ok(named.length > 5);
  for (const [page, name] of named) t.ok(source.includes(`'${name}'`), `${page}: ${name}`);
});
