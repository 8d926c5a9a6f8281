/**
 * Puts the focus on the view's heading when what had it is gone.
 *
 * Not at once: a dialog that is about to close still keeps the focus to itself, and gives it back behind that.
 */
export function focusHeading(): void {
  setTimeout(() => document.querySelector('h1')?.focus());
}
