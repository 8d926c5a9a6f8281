import { readFileSync, renameSync, statSync } from 'node:fs';
import { join } from 'node:path';
import type { EpochMs } from '../../domain/time.js';
import { writeDraft } from '../../files/write-file.js';
import { type Databases, storeId } from './databases.js';

/**
 * How often the note is written and the files are checked. The note
 * does not cover writes since then.
 */
const INTERVAL_MS = 1_000;

/** What is wrong with the files of a store. */
export type CopyFault =
  /** An older state of the store that was last used here: revocations since then are lost. */
  | { readonly kind: 'older'; readonly lastUsedAt: EpochMs; readonly transactionsBehind: number }
  /** A different store from the one that was last used here. */
  | { readonly kind: 'another'; readonly lastUsedAt: EpochMs }
  /** The files at the path are no longer those that this process has open, or were overwritten. */
  | { readonly kind: 'replaced' }
  /** The note cannot be written, so an older copy would go unnoticed. */
  | { readonly kind: 'unnoted'; readonly reason: string };

/** The content of the note beside the folder. */
interface Note {
  readonly store: number;
  /** LMDB's number of the last write transaction. */
  readonly transaction: number;
  readonly at: EpochMs;
}

/**
 * Detects that an old copy of the store's folder was put back.
 *
 * A note beside the folder, `PATH.last-transaction`, holds the number of the last transaction; a
 * copy of the folder does not contain it. While the store is open, its files must stay those that
 * were opened, or processes would go on with different stores.
 */
export class CopyWatch {
  readonly #path: string;
  readonly #dbs: Databases;
  readonly #onFault: (fault: CopyFault) => void;
  readonly #file: string;
  readonly #timer: NodeJS.Timeout;
  readonly #store: number | undefined;
  /** The highest number of a transaction that this process has seen. */
  #seen = -1;
  #noted = -1;
  /** Whether it was reported that the note cannot be written. */
  #isUnnoted = false;
  #isReplaced = false;

  /**
   * Compares the store with the note.
   *
   * @param onFault called at once, or later while the store is open
   */
  constructor(path: string, dbs: Databases, onFault: (fault: CopyFault) => void) {
    this.#path = path;
    this.#dbs = dbs;
    this.#onFault = onFault;
    this.#file = fileOf(path) ?? '';
    this.#store = storeId(dbs);
    const found = compare(readNote(notePath(path)), this.#store, lastTransaction(dbs));
    if (found !== undefined) onFault(found);
    this.#note();
    this.#timer = setInterval(() => {
      if (!this.isReplaced() && !this.isOverwritten()) this.#note();
    }, INTERVAL_MS).unref();
  }

  /**
   * Whether the files at the path are no longer those that are open; reported once. Called after
   * each write too, because a write to the old files would be lost at the next start.
   */
  isReplaced(): boolean {
    const file = this.#isReplaced ? '' : fileOf(this.#path);
    if (this.#isReplaced || file === undefined || file === this.#file) return this.#isReplaced;
    this.#reportReplaced();
    return true;
  }

  /**
   * Whether a copy was written into the open file, as `cp` does; reported once. Called before and
   * after each write too, because LMDB would continue with the number that it knows.
   */
  isOverwritten(): boolean {
    if (this.#isReplaced || this.#isOpenedStore()) return this.#isReplaced;
    this.#reportReplaced();
    return true;
  }

  close(): void {
    clearInterval(this.#timer);
    if (!this.#isReplaced && fileOf(this.#path) === this.#file && this.#isOpenedStore()) this.#note();
  }

  /** Whether the open file still holds the store that was opened, and no earlier state of it. */
  #isOpenedStore(): boolean {
    const transaction = lastTransaction(this.#dbs);
    if (transaction < this.#seen) return false;
    this.#seen = transaction;
    try {
      return this.#store === undefined || storeId(this.#dbs) === this.#store;
    } catch {
      // It cannot be read now, so requests are refused anyway.
      return true;
    }
  }

  #reportReplaced(): void {
    this.#isReplaced = true;
    clearInterval(this.#timer);
    this.#onFault({ kind: 'replaced' });
  }

  #note(): void {
    const transaction = lastTransaction(this.#dbs);
    const store = this.#store;
    if (transaction === this.#noted || store === undefined) return;
    const note: Note = { store, transaction, at: Date.now() };
    const file = notePath(this.#path);
    try {
      // Replace the note atomically: any process may write it.
      writeDraft(`${file}.${process.pid}`, JSON.stringify(note));
      renameSync(`${file}.${process.pid}`, file);
      this.#noted = transaction;
      this.#isUnnoted = false;
    } catch (error) {
      // The disk may only be full for a while, so the next interval retries.
      if (!this.#isUnnoted) this.#onFault({ kind: 'unnoted', reason: (error as Error).message });
      this.#isUnnoted = true;
    }
  }
}

function compare(note: Note | undefined, store: number | undefined, transaction: number): CopyFault | undefined {
  if (note === undefined) return undefined;
  if (note.store !== store) return { kind: 'another', lastUsedAt: note.at };
  const transactionsBehind = note.transaction - transaction;
  return transactionsBehind > 0 ? { kind: 'older', lastUsedAt: note.at, transactionsBehind } : undefined;
} // prettier-ignore

function lastTransaction({ root }: Databases): number {
  return (root.getStats() as { readonly lastTxnId: number }).lastTxnId;
}

function notePath(path: string): string {
  return `${path.replace(/\/+$/, '')}.last-transaction`;
}

/** The codes of a path at which there is no file. */
const ABSENT: ReadonlySet<string | undefined> = new Set(['ENOENT', 'ENOTDIR', 'ELOOP']);

/**
 * Returns the device and inode of the data file; an empty string if there is none, and undefined if
 * that cannot be determined now.
 */
function fileOf(path: string): string | undefined {
  try {
    const { dev, ino } = statSync(join(path, 'data.mdb'));
    return `${dev}:${ino}`;
  } catch (error) {
    return ABSENT.has((error as NodeJS.ErrnoException).code) ? '' : undefined;
  }
}

function readNote(file: string): Note | undefined {
  try {
    const note = JSON.parse(readFileSync(file, 'utf8')) as Partial<Note> | null;
    const { store, transaction, at } = note ?? {};
    return typeof store === 'number' && typeof transaction === 'number' && typeof at === 'number'
      ? { store, transaction, at }
      : undefined;
  } catch {
    return undefined;
  }
}
