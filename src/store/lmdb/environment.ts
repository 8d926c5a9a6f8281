import { chmodSync } from 'node:fs';
import { join } from 'node:path';
import { type Database, open, type RootDatabase } from 'lmdb';
import { makeFolder } from '../../files/files.js';
import { StoreUnavailable } from '../faults.js';
import { MAX_PROCESSES, OpeningLock } from './opening-lock.js';
import { refuseForbidden, unopened } from './unopened.js';
import { refuseDamaged } from './verify.js';

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
