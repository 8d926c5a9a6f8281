import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { SealBroken, SealingKeyMissing } from '../accounts/sealing.js';
import { loadConfig, type LoadedConfig } from '../config/load.js';
import { counted } from '../util/text.js';
import { type EpochMs, parseTime } from '../util/time.js';
import { isExpired, type Token } from '../domain/token.js';
import type { OpenedStore } from '../server/stores/open-store.js';
import type { Store } from '../store/core/store.js';
import { namesOfRevoked } from '../store/core/token-records.js';
import { removeRecords, type StoreRecord, withSecrets, writeRecords } from '../store/transfer.js';
import { linesOf, membersOf } from './log-lines.js';
import { openBackup } from './backup-file.js';
import { CommandFailed, print, relativeTime, withProgress } from './terminal/output.js';
import { confirm } from './terminal/password.js';
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
  const backup = await openBackup(file);
  const { to } = loaded.config.audit;
  const own = to !== null && to !== 'stdout' && existsSync(to) ? to : null;
  const ended = new Trail();
  for (const log of new Set([...(own === null ? [] : [own]), ...(options.audit ?? [])]))
    await readLog(log, ended, log === own);
  await withStore(
    loaded,
    async (opened) => {
      const { store } = opened;
      await refuseUnlessEmpty(store);
      const revoked = new Set(await store.tokens.listRevokedDigests());
      const contents = new Contents(revoked, ended);
      for await (const record of backup.records()) {
        requireSealingKey(record, opened, loaded.config.store);
        contents.wanted(record);
      }
      process.stderr.write(contents.describe(backup.createdAt));
      if (!options.yes) {
        await confirm('Restore it?', 'not restored');
        // The store may have been used while the question was open.
        await refuseUnlessEmpty(store);
      }
      if (await store.maintenance.isRestoring()) await removeRecords(store);
      await store.maintenance.setRestoring(true);
      const written = new Contents(revoked, ended);
      const records = await writeRecords(store, withProgress(written.of(backup.records()), 'restored'));
      await refuseUnlessComplete(store, written.tokens);
      await store.maintenance.setRestoring(false);
      const target = { records, backup_created_at: backup.createdAt };
      recordOperation(opened, [{ event: 'store.restored', outcome: 'success', reason: 'restore', target }]);
      print(`${counted(records, 'record')} restored\n`);
    },
    { create: 'restore' },
  );
}

/** A store with part of an interrupted restore may be overwritten. */
async function refuseUnlessEmpty(store: Store): Promise<void> {
  if (!(await store.maintenance.isRestoring()) && (await store.directory.listCustomers()).length > 0)
    throw new CommandFailed('the store is not empty; restore into an empty store');
}

async function refuseUnlessComplete({ tokens }: Store, expected: number): Promise<void> {
  const found = await tokens.countActive(Number.MIN_SAFE_INTEGER);
  if (found !== expected)
    throw new CommandFailed(`the store has ${counted(found, 'token')} instead of ${expected}; run the command again`);
} // prettier-ignore

/** Chooses what is restored of a backup, and counts it. */
class Contents {
  readonly #revoked: ReadonlySet<string>;
  readonly #trail: Trail;
  readonly #stay = { keys: 0, tokens: 0, sessions: 0, suspended: 0 };
  readonly #active = { tokens: 0, sessions: 0 };
  readonly #now = Date.now();
  /** The number of restored tokens. */
  tokens = 0;

  /** @param revoked digests of legacy keys that are revoked in the store */
  constructor(revoked: ReadonlySet<string>, trail: Trail) {
    this.#revoked = revoked;
    this.#trail = trail;
  }

  async *of(records: AsyncIterable<StoreRecord>): AsyncGenerator<StoreRecord> {
    for await (const record of records) yield* this.wanted(record);
  }

  wanted(record: StoreRecord): StoreRecord[] {
    if (record.kind === 'token') return this.#token(record);
    if (record.kind === 'session') {
      if (this.#trail.sessions.has(record.value.id)) return this.#without('sessions');
      this.#active.sessions += Number(record.value.endsAt > this.#now);
    }
    return [record];
  }

  #token(record: Extract<StoreRecord, { kind: 'token' }>): StoreRecord[] {
    if (this.#revoked.has(record.value.digest)) return this.#without('keys');
    // Keeps a directory file from bringing the token back.
    if (this.#trail.tokens.has(record.value.id)) return this.#without('tokens', namesOfRevoked(record.value));
    const value = asOfTrail(record.value, this.#trail);
    if (value.restrictions?.suspended && !record.value.restrictions?.suspended) this.#stay.suspended += 1;
    this.#active.tokens += Number(!isExpired(value, this.#now));
    this.tokens += 1;
    return [{ ...record, value }];
  }

  #without(what: 'keys' | 'tokens' | 'sessions', revoked: readonly string[] = []): StoreRecord[] {
    this.#stay[what] += 1;
    return revoked.map((value) => ({ kind: 'revoked', value }));
  }

  describe(createdAt: string | null): string {
    const { keys, tokens, sessions, suspended } = this.#stay;
    const { unreadable } = this.#trail;
    const age = createdAt === null ? '' : `made ${relativeTime(Date.parse(createdAt), this.#now)}, `;
    const lines = [
      keys > 0 && `${stay(keys, 'legacy key')} revoked, according to this store`,
      tokens + sessions > 0 &&
        `${stay(tokens, 'token')} revoked and ${counted(sessions, 'session')} ended, according to the audit log`,
      suspended > 0 && `${stay(suspended, 'token')} suspended, according to the audit log`,
      unreadable > 0 &&
        `warning: the last line of ${counted(unreadable, 'audit log')} is cut off; if it reports a revocation, revoke that token again`,
      `the backup: ${age}active tokens: ${this.#active.tokens}, sessions: ${this.#active.sessions}`,
      `warning: the store will be as it was at ${createdAt ?? 'the time of the backup'}. ` +
        'Tokens that were revoked since then work again, and so do old passwords and users who were locked: ' +
        'repeat the changes that the audit log lists since then',
    ].filter((line) => line !== false);
    return lines.map((line) => `${line}\n`).join('');
  }
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

function requireSealingKey(record: StoreRecord, { sealer }: OpenedStore, store: StoreSettings): void {
  try {
    withSecrets(record, (sealed, owner) => sealer.open(sealed, owner));
  } catch (error) {
    if (!(error instanceof SealBroken || error instanceof SealingKeyMissing)) throw error;
    const remedy =
      store.type === 'lmdb'
        ? `copy sealing.key of the store that was backed up to ${join(store.path, 'sealing.key')}`
        : 'set store.sealing_key to the key of the store that was backed up';
    throw new CommandFailed(`${error.message}; ${remedy}, then restore again`, { cause: error });
  }
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
 */
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

const REMEDY = 'nothing was changed; pass the log as Latchkey wrote it';

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
