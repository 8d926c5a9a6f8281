import { spawnSync } from 'node:child_process';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join, normalize } from 'node:path';
import t from 'tap';
import { parse } from 'yaml';
import { EVERY_CASE } from '../helpers/nightly.js';
import { startRedis } from '../helpers/redis.js';
import { anchorsOf, blocksOf, linksOf, pages } from './markdown.js';
import { PageRun } from './page-run.js';

/** The blocks of a page that no other test runs. Examples and charts have their own tests. */
function toRun(page: string) {
  if (/^(examples|helm)\//.test(page)) return [];
  return blocksOf(page).filter(({ notRun, runBy }) => notRun === undefined && runBy === undefined);
}

// Most of the time is spent starting commands, so pages in parallel take less.
t.jobs = 3;
// Only a hanging command should ever reach this.
const LIMIT_MS = 600_000;
t.setTimeout(LIMIT_MS);
const run = EVERY_CASE ? pages() : ['README.md'];
const parts = run.flatMap((page) => {
  const blocks = toRun(page);
  const folders = [...new Set(blocks.map(({ folder }) => folder))];
  return folders.map((each) => ({ page, blocks: blocks.filter(({ folder }) => folder === each) }));
});
for (const { page, blocks } of parts) {
  const name = `${page}, from line ${blocks[0]?.line}: its files and commands work`;
  t.test(name, { buffered: true, timeout: LIMIT_MS }, async (t) => {
    const needsRedis = blocks.some(({ text }) => text.includes('127.0.0.1:6379'));
    const redis = needsRedis ? new URL((await startRedis(t)).url).host : '';
    const run = await PageRun.begin(t, needsRedis ? new Map([['127.0.0.1:6379', redis]]) : undefined);
    for (const block of blocks) await run.take(block);
    run.checkFiles();
  });
}

t.test('a block that is not run here says why, or which test runs it', async (t) => {
  let count = 0;
  for (const page of pages()) {
    for (const { line, notRun, runBy } of blocksOf(page)) {
      if (notRun !== undefined) t.match(notRun, /\w+ \w+/, `${page}, line ${line}: a reason`);
      if (runBy !== undefined) t.ok(existsSync(runBy), `${page}, line ${line}: ${runBy}`);
      if (notRun !== undefined || runBy !== undefined) count += 1;
    }
  }
  t.ok(count > 0);
});

t.test('a server in the foreground is the end of its block: the lines after it would wait', async (t) => {
  let count = 0;
  for (const page of pages()) {
    for (const { kind, text, line } of blocksOf(page)) {
      const [, after] = kind === 'sh' ? text.split(/^latchkey serve [^&\n]*\n/m) : [];
      if (after === undefined) continue;
      count += 1;
      t.equal(after, '', `${page}, line ${line}`);
    }
  }
  t.ok(count > 5, `${count} blocks`);
});

t.test('the configuration of every example says who may log in', async (t) => {
  const files = readdirSync('examples', { recursive: true, encoding: 'utf8' })
    .filter((file) => /^[^/]+\/latchkey[^/]*\.yaml$/.test(file))
    .map((file) => join('examples', file));
  t.ok(files.length > 4);
  for (const file of files) t.ok('directory' in parse(readFileSync(file, 'utf8')), file);
});

t.test('links between pages are valid', async (t) => {
  let count = 0;
  for (const page of pages()) {
    for (const { path, anchor } of linksOf(page)) {
      count += 1;
      const target = path === '' ? page : normalize(join(page, '..', path));
      if (!existsSync(target)) t.fail(`${page}: there is no ${target}`);
      else if (anchor !== undefined && !anchorsOf(target).includes(anchor)) {
        t.fail(`${page}: ${target} has no heading for #${anchor}`);
      }
    }
  }
  t.ok(count > 100, `${count} links`);
});

t.test('docs/README.md links every page', async (t) => {
  const linked = linksOf('docs/README.md').map(({ path }) => normalize(join('docs', path)));
  for (const page of pages().filter((each) => each.startsWith('docs/') && each !== 'docs/README.md')) {
    t.ok(linked.includes(page), page);
  }
});

t.test('docs/configuration.md matches the schema, and every key has a description', async (t) => {
  const { status, stderr } = spawnSync(process.execPath, ['scripts/configuration-page.mjs', '--check'], {
    encoding: 'utf8',
  });
  t.equal(status, 0, stderr);
});

t.test('every example is named in a test', async (t) => {
  const tests = readdirSync('test', { recursive: true, encoding: 'utf8' }).filter((file) =>
    file.endsWith('.test.ts'),
  );
  const text = tests.map((file) => readFileSync(join('test', file), 'utf8')).join('');
  const examples = readdirSync('examples', { withFileTypes: true }).filter((entry) => entry.isDirectory());
  t.ok(examples.length > 0);
  for (const { name } of examples) t.match(text, name);
});
