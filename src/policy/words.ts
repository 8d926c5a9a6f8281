import { foldCase } from '../util/lookalikes.js';

const SLASH = 0x2f;
const [A, Z] = [0x41, 0x5a];

/** The fixed segments of all routes, to rule out at little cost that case matters to a path. */
export class Words {
  readonly #folded: ReadonlySet<string>;
  readonly #lengths: ReadonlySet<number>;
  readonly #hasCapitals: boolean;
  /** Escaped letters may be shorter in the other case. */
  readonly #hasEscapes: boolean;

  constructor(words: readonly string[]) {
    this.#folded = new Set(words.map(foldCase));
    this.#lengths = new Set(words.map(({ length }) => length));
    this.#hasCapitals = words.some((word) => word !== word.toLowerCase());
    this.#hasEscapes = words.some((word) => word.includes('%'));
  }

  /** Whether a segment may be one of these words in another case. */
  mayHaveOtherCase(path: string): boolean {
    let mayDiffer = this.#hasCapitals;
    let from = 1;
    for (let i = 1; i <= path.length; i++) {
      const code = i === path.length ? SLASH : path.charCodeAt(i);
      if (code >= A && code <= Z) mayDiffer = true;
      if (code !== SLASH) continue;
      if (mayDiffer && this.#has(path, from, i)) return true;
      mayDiffer = this.#hasCapitals;
      from = i + 1;
    }
    return false;
  }

  #has(path: string, from: number, end: number): boolean {
    if (!this.#hasEscapes && !this.#lengths.has(end - from)) return false;
    return this.#folded.has(foldCase(path.slice(from, end)));
  }
}
