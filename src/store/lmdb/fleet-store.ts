import { readdir, readFile, rename, rm, stat, utimes, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { makeFolder } from '../../files/make-folder.js';
import { type FleetStore, LIVE_MS, type LiveMember, type Member } from '../fleet-store.js';
import { answersTo, noteAnswer, noteQuestion } from './ended-log.js';
import type { Transactions } from './transactions.js';
import { parseUntrustedJson } from '../../domain/json.js';
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
    answers: (question) => transactions.read((dbs) => answersTo(dbs, question)),
  };
}

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
    await rm(join(this.#folder, id), { force: true });
  }

  async #write(member: Member): Promise<void> {
    const file = join(this.#folder, member.id);
    const text = JSON.stringify(member);
    const isKnown = this.#written.get(member.id) === text && (await touch(file));
    if (isKnown) return;
    makeFolder(this.#folder, 0o700);
    const unfinished = `${file}.new`;
    await writeFile(unfinished, text, { mode: 0o600 });
    await touch(unfinished);
    await rename(unfinished, file);
    this.#written.set(member.id, text);
  }

  async #removeExpired(): Promise<void> {
    for (const id of await this.#ids()) {
      const age = await ageOf(join(this.#folder, id));
      if (age !== undefined && !isLive(age)) await rm(join(this.#folder, id), { force: true });
    }
  }

  async #ids(): Promise<string[]> {
    const names = await readdir(this.#folder).catch((): string[] => []);
    return names.filter((name) => !name.endsWith('.new')).toSorted();
  }

  /** Reads a live member; undefined if its file was removed meanwhile or is invalid. */
  async #read(id: string): Promise<LiveMember | undefined> {
    const file = join(this.#folder, id);
    const age = await ageOf(file);
    if (age === undefined || !isLive(age)) return undefined;
    try {
      return { ...(parseUntrustedJson(await readFile(file, 'utf8')) as Member), age };
    } catch {
      return undefined;
    }
  }
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
  const found = await stat(file).catch(() => undefined);
  return found === undefined ? undefined : Math.round(monotonicMs() - found.mtimeMs);
}

function monotonicMs(): number {
  return Number(process.hrtime.bigint() / 1_000n) / 1_000;
}
