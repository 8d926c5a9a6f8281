import { execFileSync } from 'node:child_process';
import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { parse, parseDocument, stringify } from 'yaml';
import { IDENTITY_PRESETS, identityPreset } from '../../src/config/schema/identity-presets.js';
import { IDENTITY_FACTS } from '../../src/domain/identity-fields.js';
import { decisionAddresses } from '../../src/config/schema/listen.js';
import { loadConfig } from '../../src/config/load.js';
import { needPackages, runs } from '../helpers/debian.js';
import { temporaryFolder } from '../helpers/latchkey.js';
import { builtInRoutes } from '../../src/endpoints/endpoints.js';
import * as recordKinds from '../../src/store/core/kinds.js';
import { blocksOf, pages } from './markdown.js';

t.test('docs/accounts.md: the configuration is valid', async (t) => {
  const [block, ...more] = blocksOf('docs/accounts.md', 'Use an API that already has users');
  t.equal(more.length, 0);
  const file = join(temporaryFolder(t), 'latchkey.yaml');
  writeFileSync(file, `upstream: http://127.0.0.1:3000\n${block?.text}`);
  t.same(loadConfig(file).config.directory, {
    file: null,
    http: { url: 'http://127.0.0.1:4000/', timeout: 2000 },
  });
});

t.test('docs/decision-endpoint.md: the configurations are valid', async (t) => {
  const [block, grpc, ...more] = blocksOf('docs/decision-endpoint.md');
  t.equal(more.length, 0);
  const file = join(temporaryFolder(t), 'latchkey.yaml');
  const addresses = () => decisionAddresses(loadConfig(file).config.decision);
  writeFileSync(file, block?.text ?? '');
  t.same(addresses(), { http: { host: '127.0.0.1', port: 9902 }, grpc: null });
  writeFileSync(file, `upstream: http://127.0.0.1:3000\n${grpc?.text}`);
  t.same(addresses(), { http: null, grpc: { host: '127.0.0.1', port: 9903 } });
  writeFileSync(file, 'upstream: http://127.0.0.1:3000\ndecision: { host: 127.0.0.2, grpc: {} }');
  t.match(addresses(), { http: { host: '127.0.0.2', port: 9902 }, grpc: { port: 9903 } });
  writeFileSync(file, 'upstream: http://127.0.0.1:3000');
  t.same(addresses(), { http: null, grpc: null }, 'off by default');
});

t.test('docs/security.md: the configurations are valid', async (t) => {
  const blocks = blocksOf('docs/security.md', 'TLS and HTTP/2 to clients');
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

t.test('docs/limits.md: defaults match the schema', async (t) => {
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

t.test('docs/upstreams.md: the configuration is valid', async (t) => {
  const folder = temporaryFolder(t);
  const file = join(folder, 'latchkey.yaml');
  needPackages(() => runs('openssl', 'version'), 'openssl');
  const command = ['req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes', '-subj', '/CN=a', '-keyout', 'latchkey-key.pem', '-out', 'latchkey.pem'];
  execFileSync('openssl', command, { cwd: folder, stdio: 'pipe' });
  writeFileSync(join(folder, 'internal-ca.pem'), readFileSync(join(folder, 'latchkey.pem')));
  const [block] = blocksOf('docs/upstreams.md');
  writeFileSync(file, block?.text ?? '');
  t.match(loadConfig(file).config.upstreams, { api: { urls: { length: 2 } }, billing: { tls: { ca: join(folder, 'internal-ca.pem') } } });
}); // prettier-ignore

t.test('docs/audit.md lists every event, and its configuration is valid', async (t) => {
  const page = readFileSync('docs/audit.md', 'utf8');
  const source = readFileSync('src/domain/audit.ts', 'utf8');
  const events = [...source.matchAll(/\| '([a-z_]+\.[a-z_]+)'/g)].map(([, name = '']) => name);
  t.ok(events.length > 15);
  for (const event of events) t.match(page, `| \`${event}\``, event);
  const file = join(temporaryFolder(t), 'latchkey.yaml');
  writeFileSync(file, `upstream: http://127.0.0.1:3000\n${blocksOf('docs/audit.md')[0]?.text}`);
  t.match(loadConfig(file).config.audit, { to: /audit.jsonl$/, required: true });
});

t.test('docs/identity.md lists the presets, and its configuration is valid', async (t) => {
  const page = readFileSync('docs/identity.md', 'utf8');
  const names = Object.keys(IDENTITY_PRESETS) as (keyof typeof IDENTITY_PRESETS)[];
  const cells = (row: string) => row.split('|').slice(1, -1).map((cell) => cell.trim().replaceAll('`', ''));
  const rows = page.slice(page.indexOf('## Presets')).split('\n').filter((line) => line.startsWith('|'));
  t.same(cells(rows[0] ?? ''), ['fact', ...names]);
  const table = rows.slice(2, 2 + IDENTITY_FACTS.length).map(cells);
  t.same(table, IDENTITY_FACTS.map((fact) => [fact, ...names.map((name) => identityPreset(name).headers[fact] ?? '')]));
  for (const name of names) {
    const { reserved, reservedPrefixes } = identityPreset(name);
    const item = page.split('\n- ').find((text) => text.startsWith(`\`${name}\``) && text.includes(':'))?.toLowerCase();
    for (const each of [...reserved, ...reservedPrefixes]) t.ok(item?.includes(`\`${each.toLowerCase()}`), `${name}: ${each}`);
  }
  const file = join(temporaryFolder(t), 'latchkey.yaml');
  writeFileSync(file, `upstream: http://127.0.0.1:3000\n${blocksOf('docs/identity.md')[0]?.text}`);
  t.match(loadConfig(file).config.identity.assertion, { enabled: true, ttl: 60_000, rotate_after: 2_592_000_000 });
}); // prettier-ignore

t.test('docs/observability.md: the configuration is valid, and defaults match the schema', async (t) => {
  const file = join(temporaryFolder(t), 'latchkey.yaml');
  const read = (text: string) => {
    writeFileSync(file, `upstream: http://127.0.0.1:3000\n${text}`);
    return loadConfig(file).config.tracing;
  };
  const [block, ...more] = blocksOf('docs/observability.md', 'Traces');
  t.equal(more.length, 0);
  t.same(read(block?.text ?? ''), read('tracing: { otlp: http://127.0.0.1:4318 }'));
  t.equal(read(''), null, 'off by default');
});

/** Expressions that read like a translation, or that have a shorter equivalent in plain English. */
const AVOIDED =
  /\bcan not\b|\bmend(?:s|ed|ing)?\b|\bshall\b|\b(?:whereof|thereby|wherein)\b|\bin wrong hands\b|\bin your name\b|\bof old\b/i;

t.test('pages, texts and comments of the program are plain English', async (t) => {
  t.match('It can not be mended', AVOIDED, 'detects such words');
  const below = (folder: string) =>
    readdirSync(folder, { recursive: true, encoding: 'utf8' })
      .filter((file) => /\.tsx?$/.test(file))
      .map((file) => join(folder, file));
  const faults = [...pages(), ...below('src')].flatMap((file) =>
    readFileSync(file, 'utf8')
      .split('\n')
      .flatMap((line, i) => (AVOIDED.test(line) ? [`${file}:${i + 1}: ${line.trim()}`] : [])),
  );
  t.same(faults, []);
});

/** Maximum length of a line of prose, in characters. */
const LONGEST_LINE = 100;

t.test('pages have no long lines outside tables, code blocks and link definitions', async (t) => {
  const longLines = (page: string, text: string) => {
    let isCode = false;
    return text.split('\n').flatMap((line, i) => {
      const isFence = /^\s*```/.test(line);
      if (isFence) isCode = !isCode;
      const isExempt = isFence || isCode || /^\s*\||^\[[^\]]+\]: /.test(line);
      return isExempt || line.length <= LONGEST_LINE ? [] : [`${page}:${i + 1}: ${line}`];
    });
  };
  const long = 'x'.repeat(LONGEST_LINE + 1);
  const exempt = `| ${long} |\n\`\`\`sh\n${long}\n\`\`\`\n[x]: ${long}`;
  t.same(longLines('page', `${exempt}\n${long}`), [`page:6: ${long}`], 'detects a long line of prose');
  t.same(
    pages().flatMap((page) => longLines(page, readFileSync(page, 'utf8'))),
    [],
  );
});

t.test('SECURITY.md cites existing tests', async (t) => {
  const files = [...readFileSync('SECURITY.md', 'utf8').matchAll(/`(test\/[^`]+)`/g)].map(([, file = '']) => file);
  t.ok(files.length > 15);
  for (const file of new Set(files)) t.ok(existsSync(file), file);
}); // prettier-ignore

t.test('docs/design/code.md lists each source folder, and pages name existing files', async (t) => {
  const map = readFileSync('docs/design/code.md', 'utf8');
  const rows = [...map.matchAll(/^\| (`src\/[^|]+)/gm)].map(([, cell = '']) => cell);
  const mapped = rows.flatMap((cell) => [...cell.matchAll(/`([^`]+)`/g)].map(([, path = '']) => path));
  const folders = readdirSync('src', { recursive: true, withFileTypes: true }).filter((each) =>
    each.isDirectory(),
  );
  t.same(
    mapped.toSorted(),
    ['src/cli.ts', ...folders.map(({ parentPath, name }) => join(parentPath, name))].toSorted(),
  );
  // A folder's first file says the same, and what it may import.
  const firsts = [...map.matchAll(/^\| `(src\/[^`.]+)` +\| `([^`]+)` +\| (.+?) +\|$/gm)];
  t.equal(firsts.length, folders.length);
  for (const [, folder = '', file = '', holds = ''] of firsts) {
    const [first = '', second = ''] = readFileSync(join(folder, file), 'utf8')
      .replace('/*\n', '')
      .split('\n');
    t.ok(first.endsWith(` ${folder}: ${holds}.`) && second.includes(' May import '), join(folder, file));
  }
  const named = pages().flatMap((page) => {
    const paths = readFileSync(page, 'utf8').matchAll(/`((?:src|test|scripts)\/[\w./-]+)`/g);
    return [...paths].map(([, path = '']) => [page, path] as const);
  });
  t.ok(named.length > 60);
  for (const [page, path] of named) t.ok(existsSync(path) || existsSync(`${path}.ts`), `${page}: ${path}`);
});

t.test('docs/design/storage.md lists every kind of record and every key in Redis', async (t) => {
  const page = readFileSync('docs/design/storage.md', 'utf8');
  const scripts = readFileSync('src/store/redis/scripts.ts', 'utf8');
  const keys = new Set([...scripts.matchAll(/\bP\('([a-z_:]+)'/g)].map(([, key = '']) => key));
  t.ok(keys.size > 5, [...keys].join(' '));
  for (const key of keys) t.ok(page.includes(`\`${key}`), key);
  const kinds = Object.values(recordKinds).flatMap((each) =>
    typeof each === 'object' && !('parse' in each) ? [each.name] : [],
  );
  t.ok(kinds.length > 20, kinds.join(' '));
  for (const kind of kinds) t.ok(page.includes(`\`${kind}:`), kind);
});

t.test('docs/interface.md lists every built-in endpoint', async (t) => {
  const page = readFileSync('docs/interface.md', 'utf8');
  const routes = builtInRoutes({
    tokenEndpoints: 'session',
    page: '/_latchkey/',
    assertion: true,
    account: true,
    oidc: true,
    readyPath: null,
    resourcePath: '/',
  });
  const endpoints = routes.filter(({ endpoint }) => endpoint !== undefined);
  t.ok(endpoints.length > 10);
  for (const { path, methods = [], endpoint } of endpoints) {
    // The page without its slash redirects to the page, and the names of its assets are digests.
    if (endpoint?.name === 'show_page' || endpoint?.name === 'show_page_asset') continue;
    t.match(page, `\`${methods[0]} ${path}\``);
  }
});

t.test('every metric named on a page exists', async (t) => {
  const sources = readdirSync('src', { recursive: true, encoding: 'utf8' }).filter((file) =>
    file.endsWith('.ts'),
  );
  const source = sources.map((file) => readFileSync(join('src', file), 'utf8')).join('');
  // docs/observability.md lists all metrics, including Node's own; test/acceptance/metrics.test.ts checks
  // it.
  const others = pages().filter((page) => !page.endsWith('docs/observability.md'));
  const named = others.flatMap((page) => {
    const found = readFileSync(page, 'utf8').matchAll(/`(latchkey_[a-z_]+?)(?:_bucket|_sum|_count)?[`{]/g);
    return [...found].map(([, name = '']) => [page, name] as const);
  });
  t.ok(named.length > 5);
  for (const [page, name] of named) t.ok(source.includes(`'${name}'`), `${page}: ${name}`);
});
