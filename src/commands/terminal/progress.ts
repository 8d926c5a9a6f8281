/** Shows the current step of a long command on a terminal; silent in a pipe or a log. */
export class Progress {
  readonly #shown = process.stderr.isTTY;

  /** Replaces the displayed line. */
  step(text: string): void {
    if (this.#shown) process.stderr.write(`\r\u001b[K${text}`);
  }

  /** Clears the displayed line. */
  done(): void {
    if (this.#shown) process.stderr.write('\r\u001b[K');
  }
}
