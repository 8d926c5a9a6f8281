import { chmodSync, statfsSync } from 'node:fs';
import { join } from 'node:path';
import { ABORT, type Database, open, type RootDatabase } from 'lmdb';
import { makeFolder } from '../../files/files.js';
import { StoreUnavailable } from '../faults.js';
import { isOpenHere, refuseDamaged, refuseForbidden, refuseSameId, unopened } from './unopened.js';
import { keyOf, QUESTION } from '../core/kinds.js';
import type { Key } from '../core/kv.js';
import {
  CHANGED_KEYS,
  changedByKey,
  type Ended,
  endedByName,
  type Endings,
  withoutPrefix,
} from '../endings.js';

/** Version of the layout below. Another one is refused. */
const FORMAT = 2;
const FROM_BACKUP = 'restore it from a backup, or remove data.mdb if the store never held anything';

export interface Environment {
  readonly root: RootDatabase;
  /** Held while the environment is opened and during each write. */
  readonly openingLock: OpeningLock;
  /** Records as text: revision, reference and JSON, separated by `|`. */
  readonly records: Database<Buffer, string | Uint8Array>;
  /** `[index, score, name]` */
  readonly members: Database<true, [string, number, string]>;
  /** Scores by `[index, name]`. */
  readonly scores: Database<number, [string, string]>;
  readonly ended: Database<string, number>;
  readonly meta: Database<number, string>;
}

export function openEnvironment(path: string): Environment {
  let openingLock: OpeningLock;
  try {
    makeFolder(path, 0o700);
    openingLock = new OpeningLock(path);
  } catch (cause) {
    throw unopened(path, cause);
  }
  try {
    return openingLock.hold(() => openUnderLock(path, openingLock));
  } catch (error) {
    void openingLock.close();
    throw error;
  }
}

function openUnderLock(path: string, openingLock: OpeningLock): Environment {
  let root: RootDatabase;
  const isOpen = isOpenHere(path);
  try {
    const files = ['data.mdb', 'lock.mdb'].map((name) => join(path, name));
    files.forEach(refuseForbidden);
    refuseDamaged(join(path, 'data.mdb'), false, FROM_BACKUP);
    // Without overlapping sync, a commit returns once it is on disk.
    root = open({ path, maxDbs: 8, overlappingSync: false, noSubdir: false, maxReaders: MAX_PROCESSES });
    for (const file of files) chmodSync(file, 0o600);
  } catch (cause) {
    throw unopened(path, cause);
  }
  if (!isOpen) refuseSameId(root.readerList(), path);
  const environment: Environment = {
    root,
    openingLock,
    records: root.openDB('records', { encoding: 'binary' }),
    members: root.openDB('members', {}),
    scores: root.openDB('scores', {}),
    ended: root.openDB('ended', {}),
    meta: root.openDB('meta', {}),
  };
  refuseFormat(environment, path);
  return environment;
}

function refuseFormat({ root, meta }: Environment, path: string): void {
  const format = meta.get('format');
  if (format === FORMAT) return;
  if (format !== undefined)
    throw new StoreUnavailable(
      `${path} was written by another version of Latchkey (format ${format}, this one reads ${FORMAT})`,
    );
  root.transactionSync(() => meta.putSync('format', FORMAT));
}

/** LMDB's default of 126 is less than the number of workers may be. */
const MAX_PROCESSES = 1_024;
const FILE = 'opening.mdb';
/** The file holds no records, but processes that have it open still lock it. */
const REMEDY = `stop every process that uses the store, and remove ${FILE}, which holds no records`;

/**
 * A lock that all processes share: none opens the store while another one writes, because LMDB
 * could lose that commit and damage the file (ITS#9496). The end of a process releases it.
 */
export class OpeningLock {
  readonly #environment: RootDatabase;

  constructor(folder: string) {
    const path = join(folder, FILE);
    for (const file of [path, `${path}-lock`]) refuseForbidden(file);
    refuseDamaged(path, true, REMEDY);
    this.#environment = open({
      path,
      noSubdir: true,
      overlappingSync: false,
      maxReaders: MAX_PROCESSES,
    });
    for (const file of [path, `${path}-lock`]) chmodSync(file, 0o600);
  }

  hold<T>(work: () => T): T {
    let result: T | undefined;
    this.#environment.transactionSync(() => {
      result = work();
      return ABORT;
    });
    return result as T;
  }

  async close(): Promise<void> {
    await this.#environment.close();
  }
}

/**
 * Refuses writes before the disk is full: a map that cannot grow can end the process, and reads
 * must go on (https://github.com/kriszyp/lmdb-js).
 * @param minFree bytes; 0 checks nothing
 * @param isReserved low space must never prevent revoking, locking or setting passwords
 */
export function requireSpace(path: string, minFree: number, isReserved: boolean): void {
  if (minFree === 0) return;
  const { bavail, bsize } = statfsSync(path);
  if (bavail * bsize >= (isReserved ? minFree / 4 : minFree)) return;
  const free = Math.floor((bavail * bsize) / 1024);
  throw new StoreUnavailable(
    `the disk of ${path} is nearly full (${free} KiB free); writes to the store are refused`,
  );
}

const KEPT = 1_000;
/** How often a process polls for new entries, in milliseconds. */
const POLL_MS = 25;

/** Distinguishes keys of records that changed from names of what ended (`revocations.ts`). */
const CHANGED = 'key:';
const QUESTIONS = keyOf(QUESTION, '');

export function entryFor(key: Key, existed: boolean, isRemoved: boolean): string | undefined {
  const isQuestion = !isRemoved && key.startsWith(QUESTIONS);
  const mayEnd = existed && CHANGED_KEYS.some((start) => key.startsWith(start));
  return isQuestion || mayEnd ? CHANGED + key : undefined;
}

export function appendEnded({ ended }: Environment, names: readonly string[]): void {
  if (names.length === 0) return;
  let last = lastOf(ended);
  for (const name of names) {
    last += 1;
    ended.putSync(last, name);
    ended.removeSync(last - KEPT);
  }
}

export class EndedLog {
  readonly #env: Environment;
  readonly #endings: Endings;
  readonly #timer: NodeJS.Timeout;
  #last: number;

  constructor(env: Environment, endings: Endings) {
    this.#env = env;
    this.#endings = endings;
    this.#last = lastOf(env.ended);
    this.#timer = setInterval(() => this.#poll(), POLL_MS).unref();
  }

  close(): void {
    clearInterval(this.#timer);
  }

  /** Reports new entries: first what ended, then the questions, which were asked after it. */
  #poll(): void {
    const { root, ended } = this.#env;
    const from = this.#last;
    let names: string[];
    try {
      root.resetReadTxn();
      const last = lastOf(ended);
      if (last === from) return;
      names = [...ended.getRange({ start: from + 1 })].map(({ value }) => value);
      // If they could not be read, the next poll reads them.
      this.#last = last;
    } catch {
      // While the store cannot be read, requests are refused, and open streams end when they are rechecked.
      return;
    }
    const keys = withoutPrefix(CHANGED, names);
    const byName = endedByName(names.filter((name) => !name.startsWith(CHANGED)));
    const all: Ended = new Map([...changedByKey(keys), ...byName]);
    // If earlier ones were already removed, anything may have ended.
    this.#endings.ended(this.#last - from <= KEPT ? all : null);
    for (const question of withoutPrefix(QUESTIONS, keys)) this.#endings.emit('asked', question);
  }
}

function lastOf(ended: Environment['ended']): number {
  const [last = 0] = ended.getKeys({ reverse: true, limit: 1 });
  return last;
}
