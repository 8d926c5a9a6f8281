import { spawn } from 'node:child_process';
import { existsSync, rmSync, appendFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';
import t from 'tap';
import { openLmdbStore } from '../../src/store/lmdb.js';
import { run, temporaryFolder, writeConfig } from '../helpers/latchkey.js';
import { nightly } from '../helpers/nightly.js';
import { BASE, NOW, session, token, user } from '../store/contract/records.js';

const DAY = 24 * 3_600_000;
const later = { expiresAt: NOW + 3_650 * DAY };

const folder = temporaryFolder(t);
const path = join(folder, 'data');
const backup = join(temporaryFolder(t), 'backup.jsonl');
const config = { upstream: 'http://127.0.0.1:1', audit: { to: './audit.jsonl' } };
const audited = writeConfig(folder, config);
/** The same store, without an audit log. */
const silent = writeConfig(temporaryFolder(t), { upstream: config.upstream, store: { type: 'lmdb', path } });

t.test('a backup', async (t) => {
  const store = openLmdbStore(path);
  await store.directory.change(BASE, NOW);
  const tokens = ['A', 'B', 'C', 'D'].map((id) => token(id, later));
  await store.directory.change({ tokens: [...tokens, token('OLD', { expiresAt: 1 }), token('K', { kind: 'legacy_key' })] }, NOW);
  for (const digest of ['X', 'Y']) await store.sessions.create(session(digest, { endsAt: later.expiresAt }), user('U1'), null);
  await store.maintenance.close();
  t.match(await run(['store', 'backup', backup, '--config', audited]), { code: 0 });
}); // prettier-ignore

/** Ids of the tokens and sessions in a store, and which digests are not revoked. */
async function contentOf(path: string) {
  const store = openLmdbStore(path);
  const tokens = (await store.tokens.listOfUser('U1')).map((each) => each.token.id).toSorted();
  const sessions = (await store.sessions.listOfUser('U1')).map(({ digest }) => digest).toSorted();
  const fresh = await store.tokens.filterNewDigests(['digest-K', 'digest-A']);
  await store.maintenance.close();
  return { tokens, sessions, fresh };
}

/** Ids of suspended tokens in a store. */
async function suspendedIn(path: string) {
  const store = openLmdbStore(path);
  const tokens = (await store.tokens.listOfUser('U1')).map((each) => each.token);
  await store.maintenance.close();
  return tokens.filter(({ restrictions }) => restrictions?.suspended === true).map(({ id }) => id);
}

t.test('keeps revoked and ended what the audit logs report as such', async (t) => {
  t.match(await run(['token', 'revoke', 'A', 'K', '--config', audited]), { code: 0 });
  t.match(await run(['session', 'revoke', 'id-X', '--config', audited]), { code: 0 });
  for (const [verb, id] of [['suspend', 'B'], ['suspend', 'OLD'], ['resume', 'OLD']] as const)
    t.match(await run(['token', verb, id, '--config', audited]), { code: 0 });
  const entry = (more: object) => `${JSON.stringify({ event: 'token.revoked', ...more })}\n`;
  appendFileSync(join(folder, 'audit.jsonl'), entry({ outcome: 'unknown', target: { token_id: 'C' } }));
  const other = join(temporaryFolder(t), 'server.log');
  writeFileSync(other, [
    '{"level":"info","msg":"ready"}\n',
    entry({ outcome: 'success', target: { token_id: 'D' }, msg: 'audit' }),
    '{"event":"token.revoked","target":{"token',
  ].join('')); // prettier-ignore
  rmSync(path, { recursive: true });

  t.match(await run(['store', 'restore', backup, '--config', audited, '--audit', 'none.jsonl']), {
    code: 1,
    stderr: /none\.jsonl cannot be read: no such file or directory \(ENOENT\)/,
  });
  t.notOk(existsSync(path));
  const { code, stdout, stderr } = await run(['store', 'restore', backup, '--config', audited, '--audit', other]);
  t.match({ code, stdout }, { code: 0, stdout: /^10 records restored\n$/ });
  t.match(stderr, /4 tokens stay revoked and 1 session ended, according to the audit log/);
  t.match(stderr, /\n1 token stays suspended, according to the audit log\n/);
  t.strictSame(await suspendedIn(path), ['B']);
  t.match(stderr, /warning: the last line of 1 audit log is cut off; if it reports a revocation, revoke that token again/);
  t.match(stderr, /the backup: made .*, active tokens: 1, sessions: 1\nwarning: the store will be as it was at /);
  t.strictSame(await contentOf(path), { tokens: ['B', 'OLD'], sessions: ['Y'], fresh: ['digest-A'] }, 'a directory file does not revive the key');
  rmSync(path, { recursive: true });
}); // prettier-ignore

t.test('refuses logs without audit entries, and lines that may hide a revocation', async (t) => {
  const log = join(temporaryFolder(t), 'audit.log');
  const entry = `${JSON.stringify({ event: 'token.revoked', outcome: 'success', target: { token_id: 'D' } })}\n`;
  const docker = `${JSON.stringify({ log: entry, stream: 'stdout' })}\n`;
  const unread =
    /audit\.log:2: the line cannot be read, and may report a revocation; nothing was changed; .*/;
  const none = /audit\.log has no audit entries; nothing was changed; pass the log as Latchkey wrote it/;
  for (const [content, stderr] of [
    [gzipSync(entry), /nothing was changed; pass the log as Latchkey wrote it/],
    [docker, none],
    ['', none],
    ['{"level":"info","msg":"ready"}\n', none],
    [Buffer.from([0xff, 0, 0x0a, 0x80]), /audit\.log:1: the line cannot be read/],
    [`${entry}2026-01-01T00:00:00Z stdout F ${entry}`, unread],
    [`${entry}{"event":"token.revoked","target":null}\n`, unread],
    [`${entry}{"event":"token.rev${entry}`, unread],
  ] as const) {
    writeFileSync(log, content);
    const restored = await run(['store', 'restore', backup, '--config', silent, '--audit', log]);
    t.match(restored, { code: 1, stdout: '', stderr }, String(content));
  }
  t.notOk(existsSync(path));
  const args = ['store', 'restore', backup, '--config', silent, '--audit', '-'];
  t.match(await run(args, { input: `\n${entry}` }), { code: 0, stderr: /1 token stays revoked/ });
  rmSync(path, { recursive: true });
});

t.test('without an audit log, a script restores everything and reports what becomes valid again', async (t) => {
  const { code, stderr } = await run(['store', 'restore', backup, '--config', silent]);
  t.equal(code, 0);
  t.match(stderr, /^the backup: made .*, active tokens: 5, sessions: 2\nwarning: .* Tokens that were revoked since then work again, /);
  t.strictSame((await contentOf(path)).tokens, ['A', 'B', 'C', 'D', 'K', 'OLD']);
  rmSync(path, { recursive: true });
}); // prettier-ignore

/** Runs a command on a terminal of its own, and answers its question. */
async function onTerminal(
  args: readonly string[],
  answer: () => string | Promise<string>,
): Promise<{ code: number | null; output: string }> {
  const child = spawn('script', ['-qec', [process.execPath, 'dist/cli.js', ...args].join(' '), '/dev/null'], {
    stdio: ['pipe', 'pipe', 'inherit'],
  });
  let output = '';
  const ended = new Promise<number | null>((done) => child.once('close', done));
  const asked = new Promise<void>((done) => {
    child.stdout.on('data', (chunk: Buffer) => {
      output += chunk.toString();
      if (output.includes('[y/N]')) done();
    });
  });
  await Promise.race([asked, ended]);
  if (output.includes('[y/N]')) child.stdin.write(`${await answer()}\n`);
  return { code: await ended, output };
}

t.test('on a terminal, it shows what becomes valid again and asks', nightly, async (t) => {
  const args = ['store', 'restore', backup, '--config', silent];
  for (const no of ['', 'nay']) {
    const { code, output } = await onTerminal(args, () => no);
    t.equal(code, 1, JSON.stringify(no));
    t.match(output, /active tokens: 5, sessions: 2.*Tokens that were revoked since then work again.*Restore it\? \[y\/N\].*not restored; nothing was changed/s);
    t.strictSame((await contentOf(path)).tokens, []);
  }
  const begun = async () => {
    const store = openLmdbStore(path);
    await store.directory.change(BASE, NOW);
    await store.maintenance.close();
    return 'y';
  };
  t.match(await onTerminal(args, begun), { code: 1, output: /the store is not empty/ }, 'a store created during the question');
  rmSync(path, { recursive: true });
  t.match(await onTerminal(args, () => 'Yes'), { code: 0, output: /14 records restored/ });
  t.equal((await contentOf(path)).tokens.length, 6);
  rmSync(path, { recursive: true });
  const unasked = await onTerminal([...args, '--yes'], () => '');
  t.match(unasked, { code: 0, output: /14 records restored/ });
  t.notMatch(unasked.output, /\[y\/N\]/);
}); // prettier-ignore
