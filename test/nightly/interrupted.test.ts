import { mkdirSync, writeFileSync } from 'node:fs';
import { spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { join, resolve } from 'node:path';
import t from 'tap';
import { Sealer } from '../../src/accounts/sealing.js';
import { ownerOf } from '../../src/domain/signing-key.js';
import { openLmdbStore } from '../../src/store/lmdb.js';
import { openRedisStore } from '../../src/store/redis.js';
import type { Store } from '../../src/store/core/store.js';
import { contentOf } from '../helpers/content.js';
import { run, temporaryFolder, writeConfig } from '../helpers/latchkey.js';
import { redisSettings, startRedis } from '../helpers/redis.js';
import { NOW, session, token, user } from '../store/contract/records.js';

const sealingKey = randomBytes(32);
const sealer = new Sealer(sealingKey);
const USE = { at: NOW, ip: '::1', userAgent: 'x' };

/** A store with some of every kind of record. */
async function fill(store: Store): Promise<void> {
  await store.maintenance.initialize();
  const users = Array.from({ length: 6 }, (_, i) => user(`U${i}`, { customerId: `C${i % 2}` }));
  const customers = ['C0', 'C1'].map((id) => ({ id, name: id }));
  const services = customers.map(({ id }) => ({ id: `S${id}`, customerId: id, name: 'www' }));
  const sealed = { ...user('OTP', { customerId: 'C0' }), otpSecret: sealer.seal('JBSWY3DPEHPK3PXP', 'OTP') };
  await store.directory.change({ customers, services, users: [...users, sealed] }, NOW);
  const tokens = users.map(({ id }, i) => token(`T${i}`, { userId: id, expiresAt: i % 3 === 0 ? NOW + i : null }));
  tokens.push(token('D1', { declared: true }), token('D2', { declared: true }));
  tokens.push(token('O1', { expiresAt: NOW + 9, rotated: { to: 'R1' } }), token('R1', { predecessorId: 'O1' }));
  await store.directory.change({ tokens: [...tokens, token('L1', { kind: 'legacy_key' }), token('L2', { kind: 'legacy_key' })] }, NOW);
  await store.tokens.revoke(['L2', 'D2']);
  await store.usage.recordUses({ tokens: new Map(['T1', 'T2'].map((id) => [id, USE])), sessions: new Map() });
  for (const { id, customerId } of users.slice(0, 4))
    await store.sessions.create(session(`D${id}`, { userId: id, endsAt: NOW + 1_000_000 }), user(id, { customerId }), null);
  for (const [i, { id }] of users.slice(0, 3).entries()) await store.usage.takeOtpStep(id, i);
  const keys = [{ kid: 'K1', algorithm: 'EdDSA' as const, sealedKey: sealer.seal('key', ownerOf({ kid: 'K1', algorithm: 'EdDSA' })), signsFrom: NOW }];
  await store.signingKeys.replace({ revision: 1, keys });
} // prettier-ignore

/** The content with sealed values opened, because sealing is not deterministic. */
async function plainContentOf(store: Store): Promise<Map<string, unknown>> {
  const content = await contentOf(store);
  const owner = content.get('user OTP') as { value: { otpSecret: string } };
  owner.value.otpSecret = sealer.open(owner.value.otpSecret, 'OTP');
  const { keys } = content.get('signing_keys') as {
    keys: { kid: string; algorithm: 'EdDSA'; sealedKey: string }[];
  };
  for (const key of keys) key.sealedKey = sealer.open(key.sealedKey, ownerOf(key));
  return content;
}

/** A folder with a store configuration and its sealing key. */
function configured(store: object): { config: string; path: string } {
  const folder = temporaryFolder(t);
  mkdirSync(join(folder, 'data'), { mode: 0o700 });
  writeFileSync(join(folder, 'data/sealing.key'), sealingKey, { mode: 0o600 });
  return {
    config: writeConfig(folder, { upstream: 'http://127.0.0.1:1', store }),
    path: join(folder, 'data'),
  };
}

type Moment = 'before' | 'within' | 'after';

/** Runs a command that is killed at one of its writes, counted from 1; resolves to the signal. */
async function killed(args: readonly string[], at: number, when: Moment): Promise<string | null> {
  const preload = ['--import', resolve('test/helpers/die-at-write.mjs'), 'dist/cli.js'];
  const env = { ...process.env, DIE_AT: String(at), DIE_WHEN: when };
  const child = spawn(process.execPath, [...preload, ...args], { stdio: 'ignore', env });
  return new Promise((done) => child.once('close', (_code, signal) => done(signal)));
}

/**
 * Commands run one after another on one store; `null` runs to completion. Nine writes fill an empty
 * store. A restore after an interrupted command first removes what that left; a copy continues.
 */
const RUNS: readonly (readonly ['restore' | 'copy', number | null, Moment])[] = [
  ['restore', 1, 'before'],
  ['restore', 7, 'within'],
  ['copy', 2, 'after'],
  ['restore', 4, 'before'],
  ['restore', 6, 'within'],
  ['copy', null, 'after'],
  ['copy', 2, 'before'],
  ['restore', null, 'after'],
];

const INTERRUPTED = /interrupted; run "latchkey store/;

t.test('restore and copy, killed at any write, start over and reach the same content', async (t) => {
  const redis = await startRedis(t);
  const source = configured({ type: 'lmdb' });
  const from = openLmdbStore(source.path);
  await fill(from);
  const content = await plainContentOf(from);
  t.equal(content.size, 29);
  await from.maintenance.close();
  const backup = join(temporaryFolder(t), 'backup.jsonl');
  t.match(await run(['store', 'backup', backup, '--config', source.config]), { code: 0 });

  const lmdb = configured({ type: 'lmdb' });
  const targets = {
    lmdb: { ...lmdb, open: async () => openLmdbStore(lmdb.path) },
    redis: {
      ...configured({ type: 'redis', url: redis.url, sealing_key: sealingKey.toString('hex') }),
      open: () => openRedisStore(redisSettings({ url: redis.url })),
    },
  };
  const runAll = async (kind: keyof typeof targets): Promise<void> => {
    const { config, open } = targets[kind];
    for (const [command, at, when] of RUNS) {
      const name = `${kind}: ${command}, ${at === null ? 'to completion' : `killed ${when} write ${at}`}`;
      const from = command === 'copy' ? ['--from', source.config, '--to', config] : [backup, '--config', config];
      const args = ['store', command, ...from];
      if (at === null) t.match(await run(args), { code: 0 }, name);
      else t.equal(await killed(args, at, when), 'SIGKILL', name);
      const listed = await run(['token', 'list', '--config', config]);
      if (at !== null && at > 1) t.match(listed, { code: 1, stdout: '', stderr: INTERRUPTED }, `${name}, then list`);
      const store = await open();
      if (at === null) {
        await store.maintenance.initialize();
        t.strictSame(await plainContentOf(store), content, name);
      } else if (at > 1) await t.rejects(store.maintenance.initialize(), { message: INTERRUPTED }, name);
      else t.equal(await store.maintenance.isRestoring(), false, name);
      await store.maintenance.close();
    }
  };
  await Promise.all([runAll('lmdb'), runAll('redis')]);
  const part = configured({ type: 'lmdb' });
  await killed(['store', 'restore', backup, '--config', part.config], 3, 'after');
  t.match(await run(['store', 'backup', backup, '--config', part.config]), { code: 1, stderr: INTERRUPTED });
}); // prettier-ignore
