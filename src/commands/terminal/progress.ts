/** Shows on a terminal what long work is at. In a pipe or a log it says nothing. */
export class Progress {
  readonly #shown = process.stderr.isTTY;

  /** Replaces the line that is shown. */
  step(text: string): void {
    if (this.#shown) process.stderr.write(`\r\u001b[K${text}`);
  }

  /** Takes the line away. */
  done(): void {
    if (this.#shown) process.stderr.write('\r\u001b[K');
  }
}
