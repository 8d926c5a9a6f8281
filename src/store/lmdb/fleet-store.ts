import { readdir, readFile, rename, rm, stat, utimes } from 'node:fs/promises';
import { join } from 'node:path';
import { makeFolder } from '../../files/make-folder.js';
import { writeDraft } from '../../files/write-file.js';
import { type FleetStore, LIVE_MS, type LiveMember, type Member } from '../fleet-store.js';
import { answersTo, noteAnswer, noteQuestion } from './ended-log.js';
import type { Transactions } from './transactions.js';
import { parseUntrustedJson } from '../../util/json.js';
import { StoreUnavailable } from '../faults.js';

/** The fleet on an embedded store. Questions and answers follow what ended, in the same log. */
export function lmdbFleetStore(path: string, transactions: Transactions): FleetStore {
  const members = new Members(path);
  return {
    beat: (member) => members.beat(member),
    list: () => members.list(),
    leave: (id) => members.leave(id),
    // Revocations must be confirmed even when disk space is low, so these writes continue.
    ask: async (question) => transactions.remove((dbs) => noteQuestion(dbs, question)),
    answer: async (question, member) => transactions.remove((dbs) => noteAnswer(dbs, question, member)),
    answers: async (question) => [
      ...transactions.read((dbs) => answersTo(dbs, question)),
      ...(await members.left()),
    ],
  };
}

/** Suffix of the file of a process that left. */
const LEFT = '.left';

/**
 * Heartbeats of the processes on an embedded store: one file each, whose modification time is the
 * heartbeat. In the database, each of them would wait for the disk and delay other writers.
 *
 * The time is that of the monotonic clock, which all processes of a machine share and nobody sets.
 */
class Members {
  readonly #folder: string;
  readonly #written = new Map<string, string>();

  /** @param path the folder of the store */
  constructor(path: string) {
    this.#folder = join(path, 'fleet');
  }

  async beat(member: Member): Promise<void> {
    try {
      await this.#write(member);
    } catch (cause) {
      throw new StoreUnavailable(`${this.#folder} cannot be written (${String(cause)})`, { cause });
    }
    await this.#removeExpired();
  }

  async list(): Promise<LiveMember[]> {
    const found = await Promise.all((await this.#ids()).map((id) => this.#read(id)));
    return found.filter((member) => member !== undefined);
  }

  async leave(id: string): Promise<void> {
    this.#written.delete(id);
    const file = join(this.#folder, id);
    await rename(file, file + LEFT).catch(ignoreMissing);
    await touch(file + LEFT);
  }

  /** Returns the ids of the processes that left recently. */
  async left(): Promise<string[]> {
    return (await this.#files()).filter((name) => name.endsWith(LEFT)).map((name) => name.slice(0, -LEFT.length));
  } // prettier-ignore

  async #write(member: Member): Promise<void> {
    const file = join(this.#folder, member.id);
    const text = JSON.stringify(member);
    const isKnown = this.#written.get(member.id) === text && (await touch(file));
    if (isKnown) return;
    makeFolder(this.#folder, 0o700);
    const unfinished = `${file}.new`;
    writeDraft(unfinished, text);
    await touch(unfinished);
    await rename(unfinished, file);
    await rm(file + LEFT, { force: true });
    this.#written.set(member.id, text);
  }

  async #removeExpired(): Promise<void> {
    for (const name of await this.#files()) {
      const age = await ageOf(join(this.#folder, name));
      if (age !== undefined && !isLive(age)) await rm(join(this.#folder, name), { force: true });
    }
  }

  async #ids(): Promise<string[]> {
    return (await this.#files()).filter((name) => !name.endsWith(LEFT));
  }

  async #files(): Promise<string[]> {
    const names = (await readdir(this.#folder).catch(ignoreMissing)) ?? [];
    return names.filter((name) => !name.endsWith('.new')).toSorted();
  }

  /** Reads a live member; undefined if its file was removed meanwhile or is invalid. */
  async #read(id: string): Promise<LiveMember | undefined> {
    const file = join(this.#folder, id);
    const age = await ageOf(file);
    if (age === undefined || !isLive(age)) return undefined;
    const text = await readFile(file, 'utf8').catch(ignoreMissing);
    try {
      return text === undefined ? undefined : { ...(parseUntrustedJson(text) as Member), age };
    } catch {
      return undefined;
    }
  }
}

/**
 * Returns undefined for a missing file. A process whose file cannot be read for another reason, such
 * as too many open files, is not gone.
 */
function ignoreMissing(cause: unknown): undefined {
  if ((cause as NodeJS.ErrnoException).code === 'ENOENT') return undefined;
  throw new StoreUnavailable(`the heartbeats cannot be read (${String(cause)})`, { cause });
}

/**
 * Whether a heartbeat is recent. Its age is negative if it was
 * written before the machine restarted.
 */
function isLive(age: number): boolean {
  return age >= 0 && age <= LIVE_MS;
}

/** Sets a file's modification time. Returns false if that failed, as for a missing file. */
async function touch(file: string): Promise<boolean> {
  const seconds = monotonicMs() / 1000;
  return utimes(file, seconds, seconds).then(
    () => true,
    () => false,
  );
}

async function ageOf(file: string): Promise<number | undefined> {
  const found = await stat(file).catch(ignoreMissing);
  return found === undefined ? undefined : Math.round(monotonicMs() - found.mtimeMs);
}

function monotonicMs(): number {
  return Number(process.hrtime.bigint() / 1_000n) / 1_000;
}
