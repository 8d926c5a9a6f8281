import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { SealBroken, type Sealer, SealingKeyMissing } from '../accounts/sealing.js';
import { loadConfig, type LoadedConfig } from '../config/load.js';
import { counted } from '../util/text.js';
import { ownerOf } from '../domain/signing-key.js';
import { type EpochMs, parseTime } from '../util/time.js';
import { isExpired, type Token } from '../domain/token.js';
import type { OpenedStore } from '../server/stores/open-store.js';
import type { Store } from '../store/core/store.js';
import { namesOfRevoked } from '../store/core/token-records.js';
import { removeRecords, type StoreRecord, writeRecords } from '../store/transfer.js';
import { membersOf } from './access-log.js';
import { readBackup } from './backup-file.js';
import { linesOf } from './lines.js';
import { describeDifferences, differences } from './store.js';
import { CommandFailed, print, relativeTime } from './terminal/output.js';
import { ask } from './terminal/password.js';
import { recordOperation, withStore } from './with-store.js';

type StoreSettings = LoadedConfig['config']['store'];

interface RestoreOptions {
  readonly config: string;
  /** Audit logs in addition to the one in the configuration. */
  readonly audit?: readonly string[];
  readonly yes?: true;
}

/**
 * Restores a backup into an empty store, or over an interrupted restore. Credentials that are known
 * to have been revoked or to have ended since the backup stay so.
 */
export async function restore(file: string, options: RestoreOptions): Promise<void> {
  const loaded = loadConfig(options.config);
  const { createdAt, records } = await readBackup(file);
  const own = ownAuditLog(loaded.config.audit.to);
  const ended = await readEnded(new Set([...(own === null ? [] : [own]), ...(options.audit ?? [])]), own);
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
      if (await store.maintenance.isRestoring()) await removeRecords(store);
      await write(opened, wanted, createdAt);
      print(`${counted(wanted.length, 'record')} restored\n`);
    },
    { create: 'restore' },
  );
}

async function write(
  opened: OpenedStore,
  wanted: readonly StoreRecord[],
  createdAt: string | null,
): Promise<void> {
  const { store } = opened;
  await store.maintenance.setRestoring(true);
  await writeRecords(store, wanted);
  const differing = await differences(wanted, store);
  if (differing.length > 0)
    throw new CommandFailed(`${describeDifferences(differing)}; run the command again`);
  await store.maintenance.setRestoring(false);
  const target = { records: wanted.length, backup_created_at: createdAt };
  recordOperation(opened, [{ event: 'store.restored', outcome: 'success', reason: 'restore', target }]);
}

/** A store with part of an interrupted restore may be overwritten. */
async function refuseUnlessEmpty(store: Store): Promise<void> {
  if (!(await store.maintenance.isRestoring()) && (await store.directory.listCustomers()).length > 0)
    throw new CommandFailed('the store is not empty; restore into an empty store');
}

function ownAuditLog(to: string | null): string | null {
  return to !== null && to !== 'stdout' && existsSync(to) ? to : null;
}

/** @param revoked digests of legacy keys that are revoked in the store */
function withoutEnded(records: readonly StoreRecord[], revoked: ReadonlySet<string>, trail: Trail) {
  const wanted: StoreRecord[] = [];
  const counts = { keys: 0, tokens: 0, sessions: 0, suspended: 0 };
  for (const record of records) {
    if (record.kind === 'token' && revoked.has(record.value.digest)) counts.keys += 1;
    else if (record.kind === 'token' && trail.tokens.has(record.value.id)) {
      counts.tokens += 1;
      // Keeps a directory file from bringing the token back.
      wanted.push(...namesOfRevoked(record.value).map((value): StoreRecord => ({ kind: 'revoked', value })));
    } else if (record.kind === 'session' && trail.sessions.has(record.value.id)) counts.sessions += 1;
    else if (record.kind === 'token') {
      const value = asOfTrail(record.value, trail);
      if (value.restrictions?.suspended && !record.value.restrictions?.suspended) counts.suspended += 1;
      wanted.push({ ...record, value });
    } else wanted.push(record);
  }
  const { keys, tokens, sessions, suspended } = counts;
  const lines = [
    keys > 0 && `${stay(keys, 'legacy key')} revoked, according to this store`,
    tokens + sessions > 0 &&
      `${stay(tokens, 'token')} revoked and ${counted(sessions, 'session')} ended, according to the audit log`,
    suspended > 0 && `${stay(suspended, 'token')} suspended, according to the audit log`,
    trail.unreadable > 0 &&
      `warning: the last line of ${counted(trail.unreadable, 'audit log')} is cut off; if it reports a revocation, revoke that token again`,
  ].filter((line) => line !== false);
  return { wanted, skipped: lines.map((line) => `${line}\n`).join('') };
}

/** A token as rotations and suspensions since the backup left it. */
function asOfTrail(token: Token, { expiries, suspensions }: Trail): Token {
  const expiresAt = Math.min(token.expiresAt ?? Infinity, expiries.get(token.id) ?? Infinity);
  const changed = { ...token, expiresAt: expiresAt === Infinity ? null : expiresAt };
  if (suspensions.get(token.id)?.suspended !== true) return changed;
  return { ...changed, restrictions: { ...token.restrictions, suspended: true } };
}

function stay(count: number, what: string): string {
  return `${counted(count, what)} ${count === 1 ? 'stays' : 'stay'}`;
}

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

async function confirm(): Promise<void> {
  const answer = await ask('Restore it? [y/N] ');
  if (!/^y(es)?$/i.test(answer.trim())) throw new CommandFailed('not restored; nothing was changed');
}

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

function openSealed(record: StoreRecord, sealer: Sealer): void {
  if (record.kind === 'user' && record.value.otpSecret !== null)
    sealer.open(record.value.otpSecret, record.value.id);
  if (record.kind !== 'signing_keys') return;
  for (const key of record.value.keys) sealer.open(key.sealedKey, ownerOf(key));
}

interface Entry {
  readonly event?: unknown;
  readonly time?: unknown;
  readonly outcome?: unknown;
  readonly target?: Readonly<Record<string, unknown>> | null;
}

/**
 * An entry with an unknown outcome counts, because the change may have happened. A line that cannot
 * be read may report a revocation, so only a last one that is cut off is accepted; it is counted.
 *
 * @param own the configured log, which may have no entries yet
 */
async function readEnded(files: Iterable<string>, own: string | null): Promise<Trail> {
  const trail = new Trail();
  try {
    for (const file of files) await readLog(file, trail, file === own);
  } catch (error) {
    throw error instanceof CommandFailed ? new CommandFailed(`${error.message}; nothing was changed`) : error;
  }
  return trail;
}

async function readLog(file: string, trail: Trail, mayBeEmpty: boolean): Promise<void> {
  const name = file === '-' ? 'standard input' : file;
  let entries = 0;
  let isEmpty = true;
  for await (const { bytes, number, isCut } of linesOf(file)) {
    const text = bytes.toString();
    if (text.trim() === '') continue;
    isEmpty = false;
    const members = membersOf(text);
    if (members !== undefined) {
      if (typeof members['event'] !== 'string') continue;
      entries += 1;
      if (trail.note(members)) continue;
    }
    if (!isCut)
      throw new CommandFailed(
        `${name}:${number}: the line cannot be read, and may report a revocation; ${REMEDY}, or remove the line if it reports none`,
      );
    trail.unreadable += 1;
  }
  if (entries === 0 && !(isEmpty && mayBeEmpty))
    throw new CommandFailed(`${name} has no audit entries; ${REMEDY}`);
}

const REMEDY = 'pass the log as Latchkey wrote it';

/** What ended according to audit logs. */
class Trail {
  readonly tokens = new Set<string>();
  readonly sessions = new Set<string>();
  readonly expiries = new Map<string, EpochMs>();
  readonly suspensions = new Map<string, { readonly at: string; readonly suspended: boolean }>();
  unreadable = 0;

  /** Records an entry. Returns false when one that reports an end does not name what ended. */
  note({ event, time, outcome, target }: Entry): boolean {
    const id = target?.[event === 'session.ended' ? 'session_id' : 'token_id'];
    const expiry = parseTime(String(target?.['expires_at']));
    switch (event) {
      case 'session.ended':
      case 'token.revoked':
        if (typeof id !== 'string') return false;
        (event === 'session.ended' ? this.sessions : this.tokens).add(id);
        return true;
      case 'token.rotated':
        if (typeof id !== 'string' || expiry === undefined) return false;
        this.expiries.set(id, Math.min(expiry, this.expiries.get(id) ?? Infinity));
        return true;
      case 'token.changed':
        if (typeof id === 'string') this.#noteChange(id, target?.['suspended'], time, outcome);
        return typeof id === 'string';
      default:
        return true;
    }
  }

  /** The latest entry of all logs wins. A token counts as resumed only when that is certain. */
  #noteChange(token: string, value: unknown, time: unknown, outcome: unknown): void {
    const suspended = value === 'true';
    if (!suspended && (value !== 'false' || outcome !== 'success')) return;
    const at = typeof time === 'string' ? time : '';
    const known = this.suspensions.get(token);
    if (known === undefined || known.at < at || (known.at === at && suspended))
      this.suspensions.set(token, { at, suspended });
  }
}
