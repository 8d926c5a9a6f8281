const SLASH = 0x2f;
const CAPITAL = /[A-Z]/;

/** The fixed segments of all routes, to rule out at little cost that case matters to a path. */
export class Words {
  readonly #lower: ReadonlySet<string>;
  readonly #lengths: ReadonlySet<number>;
  readonly #hasCapitals: boolean;

  constructor(words: readonly string[]) {
    this.#lower = new Set(words.map((word) => word.toLowerCase()));
    this.#lengths = new Set(words.map(({ length }) => length));
    this.#hasCapitals = words.some((word) => CAPITAL.test(word));
  }

  /** Whether a segment of a path may be one of these words in another case. */
  mayHaveOtherCase(path: string): boolean {
    if (this.#hasCapitals) return true;
    if (!CAPITAL.test(path)) return false;
    let from = 1;
    for (let i = 1; i < path.length; i++)
      if (path.charCodeAt(i) === SLASH) {
        if (this.#has(path, from, i)) return true;
        from = i + 1;
      }
    return this.#has(path, from, path.length);
  }

  /** Most capital letters are in ids, and few words are as long. */
  #has(path: string, from: number, end: number): boolean {
    return this.#lengths.has(end - from) && this.#lower.has(path.slice(from, end).toLowerCase());
  }
}
