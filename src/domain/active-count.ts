/** How many of something are under way. It never falls below zero, because each one ends once. */
export class ActiveCount {
  #value = 0;

  get value(): number {
    return this.#value;
  }

  /** Counts one more until it is given back. */
  begin(): Active {
    this.#value += 1;
    return new Active(this.#ended);
  }

  readonly #ended = (): void => {
    this.#value -= 1;
  };
}

/** One of an {@link ActiveCount}. */
export class Active {
  #ended: (() => void) | undefined;

  constructor(ended: () => void) {
    this.#ended = ended;
  }

  /** Ends it. A second call does nothing. */
  end(): void {
    const ended = this.#ended;
    this.#ended = undefined;
    ended?.();
  }
}
