import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { SealBroken, type Sealer, SealingKeyMissing } from '../accounts/sealing.js';
import { loadConfig, type LoadedConfig } from '../config/load.js';
import { ownerOf } from '../domain/signing-key.js';
import { counted } from '../domain/counted.js';
import type { EpochMs } from '../domain/time.js';
import { isExpired } from '../domain/token.js';
import type { OpenedStore } from '../server/stores/open-store.js';
import type { Store } from '../store/store.js';
import { namesOfRevoked } from '../store/token-store.js';
import { type StoreRecord, writeRecords } from '../store/transfer.js';
import { CommandFailed } from './terminal/failure.js';
import { relativeTime } from './terminal/output.js';
import { ask } from './terminal/password.js';
import { Progress } from './terminal/progress.js';
import { type Ended, readEnded } from './audit-trail.js';
import { readBackup } from './backup-file.js';
import { recordOperation } from './record-operation.js';
import { withStore } from './with-store.js';
import { describeDifferences, differences, clearStore } from './store-compare.js';
import { print } from './terminal/print.js';

type StoreSettings = LoadedConfig['config']['store'];

export interface RestoreOptions {
  readonly config: string;
  /** Audit logs in addition to the one in the configuration. */
  readonly audit?: readonly string[];
  readonly yes?: true;
}

/**
 * Restores a backup into an empty store, or over an interrupted restore.
 *
 * Credentials that are known to have been revoked or to have ended since the backup stay so. Asks
 * for confirmation on a terminal.
 */
export async function restore(file: string, options: RestoreOptions): Promise<void> {
  const progress = new Progress();
  progress.step(`reading ${file}`);
  const loaded = loadConfig(options.config);
  const { createdAt, records } = await readBackup(file);
  const own = ownAuditLog(loaded.config.audit.to);
  const ended = await readEnded(new Set([...(own === null ? [] : [own]), ...(options.audit ?? [])]), own);
  progress.done();
  await withStore(
    loaded,
    async (opened) => {
      const { store } = opened;
      requireSealingKey(records, opened, loaded.config.store);
      await refuseUnlessEmpty(store);
      const revoked = new Set(await store.tokens.listRevokedDigests());
      const { wanted, skipped } = withoutEnded(records, revoked, ended);
      const warning = describeRestored(wanted, createdAt, Date.now());
      process.stderr.write(skipped + warning);
      if (!options.yes && process.stdin.isTTY && process.stderr.isTTY) {
        await confirm();
        // The store may have been used while the question was open.
        await refuseUnlessEmpty(store);
      }
      if (await store.maintenance.isRestoring()) await clearStore(store, progress);
      await write(opened, wanted, createdAt, progress);
      print(`${counted(wanted.length, 'record')} restored\n`);
    },
    { create: 'restore' },
  );
}

async function write(
  opened: OpenedStore,
  wanted: readonly StoreRecord[],
  createdAt: string | null,
  progress: Progress,
): Promise<void> {
  const { store } = opened;
  await store.maintenance.setRestoring(true);
  await writeRecords(store, wanted, (done) => progress.step(`restored ${done} of ${wanted.length} records`));
  const differing = await differences(wanted, store, progress);
  progress.done();
  if (differing.length > 0)
    throw new CommandFailed(`${describeDifferences(differing)}; run the command again`);
  await store.maintenance.setRestoring(false);
  const target = { records: wanted.length, backup_created_at: createdAt };
  recordOperation(opened, [{ event: 'store.restored', outcome: 'success', reason: 'restore', target }]);
}

/** A store with part of an interrupted restore may be overwritten. @throws CommandFailed */
async function refuseUnlessEmpty(store: Store): Promise<void> {
  if (!(await store.maintenance.isRestoring()) && (await store.directory.listCustomers()).length > 0)
    throw new CommandFailed('the store is not empty; restore into an empty store');
}

/**
 * Returns the audit log that servers with this configuration write on this machine; null if the
 * file does not exist.
 */
function ownAuditLog(to: string | null): string | null {
  return to !== null && to !== 'stdout' && existsSync(to) ? to : null;
}

/**
 * Leaves out what ended since the backup.
 *
 * @param revoked digests of legacy keys that are revoked in the store
 * @returns the records to write, and lines that report what was left out
 */
function withoutEnded(
  records: readonly StoreRecord[],
  revoked: ReadonlySet<string>,
  { tokens, sessions, expiries, suspended, unreadable }: Ended,
): { wanted: StoreRecord[]; skipped: string } {
  const wanted: StoreRecord[] = [];
  const counts = { keys: 0, tokens: 0, sessions: 0, suspended: 0 };
  for (const record of records) {
    if (record.kind === 'token' && revoked.has(record.value.digest)) counts.keys += 1;
    else if (record.kind === 'token' && tokens.has(record.value.id)) {
      counts.tokens += 1;
      // Keeps a directory file from bringing the token back.
      wanted.push(...namesOfRevoked(record.value).map((value): StoreRecord => ({ kind: 'revoked', value })));
    } else if (record.kind === 'session' && sessions.has(record.value.id)) counts.sessions += 1;
    else if (record.kind === 'token') {
      const isSuspended = suspended.has(record.value.id);
      if (isSuspended) counts.suspended += 1;
      wanted.push(withSuspension(withExpiry(record, expiries.get(record.value.id)), isSuspended));
    } else wanted.push(record);
  }
  const lines = [
    counts.keys > 0 ? `${stay(counts.keys, 'legacy key')} revoked, according to this store` : '',
    counts.tokens + counts.sessions > 0
      ? `${stay(counts.tokens, 'token')} revoked and ${counted(counts.sessions, 'session')} ended, according to the audit log`
      : '',
    counts.suspended > 0 ? `${stay(counts.suspended, 'token')} suspended, according to the audit log` : '',
    unreadable > 0
      ? `warning: the last line of ${counted(unreadable, 'audit log')} is cut off; if it reports a revocation, revoke that token again`
      : '',
  ];
  return {
    wanted,
    skipped: lines
      .filter((line) => line !== '')
      .map((line) => `${line}\n`)
      .join(''),
  };
}

/** Returns `1 token stays` or `2 tokens stay`. */
function stay(count: number, what: string): string {
  return `${counted(count, what)} ${count === 1 ? 'stays' : 'stay'}`;
}

/** Reports the age of the backup and how many credentials become valid with it. */
function describeRestored(records: readonly StoreRecord[], createdAt: string | null, now: EpochMs): string {
  const tokens = records.filter((record) => record.kind === 'token' && !isExpired(record.value, now)).length;
  const sessions = records.filter((record) => record.kind === 'session' && record.value.endsAt > now).length;
  const age = createdAt === null ? '' : `made ${relativeTime(Date.parse(createdAt), now)}, `;
  return (
    `the backup: ${age}active tokens: ${tokens}, sessions: ${sessions}\n` +
    `warning: the store will be as it was at ${createdAt ?? 'the time of the backup'}. ` +
    'Tokens that were revoked since then work again, and so do old passwords and users who were locked: ' +
    'repeat the changes that the audit log lists since then\n'
  );
}

/** Asks for confirmation. @throws CommandFailed unless the answer is yes */
async function confirm(): Promise<void> {
  const answer = await ask('Restore it? [y/N] ');
  if (!/^y(es)?$/i.test(answer.trim())) throw new CommandFailed('not restored; nothing was changed');
}

/** Checks that all sealed values can be opened. @throws CommandFailed before anything is written */
function requireSealingKey(
  records: readonly StoreRecord[],
  { sealer }: OpenedStore,
  store: StoreSettings,
): void {
  try {
    for (const record of records) openSealed(record, sealer);
  } catch (error) {
    if (!(error instanceof SealBroken || error instanceof SealingKeyMissing)) throw error;
    const remedy =
      store.type === 'lmdb'
        ? `copy sealing.key of the store that was backed up to ${join(store.path, 'sealing.key')}`
        : 'set store.sealing_key to the key of the store that was backed up';
    throw new CommandFailed(`${error.message}; ${remedy}, then restore again`, { cause: error });
  }
}

/** Opens the sealed values of a record. @throws SealBroken, SealingKeyMissing */
function openSealed(record: StoreRecord, sealer: Sealer): void {
  if (record.kind === 'user' && record.value.otpSecret !== null)
    sealer.open(record.value.otpSecret, record.value.id);
  if (record.kind !== 'signing_keys') return;
  for (const key of record.value.keys) sealer.open(key.sealedKey, ownerOf(key));
}

type TokenRecord = Extract<StoreRecord, { kind: 'token' }>;

/** Gives a token that was rotated since the backup the expiry that the rotation set. */
function withExpiry(record: TokenRecord, at: EpochMs | undefined): TokenRecord {
  if (at === undefined || at >= (record.value.expiresAt ?? Infinity)) return record;
  return { ...record, value: { ...record.value, expiresAt: at } };
}

/** Keeps a token suspended that was suspended since the backup. */
function withSuspension(record: TokenRecord, isSuspended: boolean): TokenRecord {
  if (!isSuspended) return record;
  return {
    ...record,
    value: { ...record.value, restrictions: { ...record.value.restrictions, suspended: true } },
  };
}
