import { readdirSync, readFileSync, rmSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { appendTo, makeFolder } from '../files/files.js';
import { newId } from '../domain/secret.js';
import { RETENTION_MS, type RevocationLog } from './revocations.js';

/** How long one file is written to, in milliseconds, so that old files can be deleted whole. */
const FILE_MS = RETENTION_MS / 4;
const NAME = /^revocations-[\w-]+\.txt$/;

/** Revocations in files of a folder, a line each. Each process writes its own and reads all at start. */
export class RevocationFiles implements RevocationLog {
  readonly #folder: string;
  readonly #onFailure: (error: unknown) => void;
  #file = '';
  #since = -Infinity;
  #isCut = false;

  constructor(folder: string, onFailure: (error: unknown) => void) {
    this.#folder = folder;
    this.#onFailure = onFailure;
    makeFolder(folder, 0o700);
    this.#begin();
  }

  load(): (readonly [name: string, at: number])[] {
    const oldest = Date.now() - RETENTION_MS;
    const found = new Map<string, number>();
    for (const name of readdirSync(this.#folder).filter((each) => NAME.test(each))) {
      const file = join(this.#folder, name);
      if (statSync(file).mtimeMs < oldest) rmSync(file, { force: true });
      else for (const [each, at] of entriesOf(readFileSync(file, 'utf8'))) if (at >= oldest) found.set(each, at);
    }
    return [...found].toSorted((a, b) => a[1] - b[1]);
  } // prettier-ignore

  append(names: readonly string[], at: number): void {
    try {
      if (performance.now() - this.#since > FILE_MS) this.#begin();
      const lines = names.map((name) => `${at} ${name}\n`).join('');
      // No name ends in a space, so a part of a line is not taken for a shorter name.
      appendTo(this.#file, this.#isCut ? ` \n${lines}` : lines);
      this.#isCut = false;
    } catch (error) {
      this.#isCut = true;
      this.#onFailure(error);
    }
  }

  #begin(): void {
    this.#since = performance.now();
    this.#file = join(this.#folder, `revocations-${newId()}.txt`);
    appendTo(this.#file, '');
    const oldest = Date.now() - RETENTION_MS - FILE_MS;
    for (const name of readdirSync(this.#folder).filter((each) => NAME.test(each))) {
      const file = join(this.#folder, name);
      if ((statSync(file, { throwIfNoEntry: false })?.mtimeMs ?? Infinity) < oldest) rmSync(file, { force: true });
    }
  } // prettier-ignore
}

/** A truncated last line is ignored. */
function entriesOf(text: string): [name: string, at: number][] {
  return text
    .slice(0, text.lastIndexOf('\n') + 1)
    .split('\n')
    .flatMap((line): [string, number][] => {
      const [, at, name] =
        /^(\d{1,15}) ((?:token|legacy|session|user|operator|ends|suspended|changed):\S+)$/.exec(line) ?? [];
      return at === undefined || name === undefined ? [] : [[name, Number(at)]];
    });
}
