/** Whether standard error shows a line of progress. */
let isShown = false;

/** Shows the current step of a long command on a terminal; silent in a pipe or a log. */
export class Progress {
  /** Replaces the displayed line. */
  step(text: string): void {
    if (!process.stderr.isTTY) return;
    process.stderr.write(`\r\u001b[K${text}`);
    isShown = true;
  }

  /** Clears the displayed line. */
  done(): void {
    clearProgress();
  }
}

/** Clears a displayed line of progress, so that an error gets a line of its own. */
export function clearProgress(): void {
  if (isShown) process.stderr.write('\r\u001b[K');
  isShown = false;
}
