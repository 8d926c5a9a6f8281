/**
 * Moves the focus to the view's heading after the focused element was removed.
 *
 * It is deferred, because a closing dialog still holds the focus and then restores it.
 */
export function focusHeading(): void {
  setTimeout(() => document.querySelector('h1')?.focus());
}
