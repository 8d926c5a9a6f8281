/** The question asked before a view is left; null when nothing would be lost. */
let question: string | null = null;

/**
 * Sets the question asked before leaving the view or the page. For the latter, the browser uses its
 * own wording.
 */
export function askBeforeLeaving(text: string | null): void {
  question = text;
  if (text === null) removeEventListener('beforeunload', refuse);
  else addEventListener('beforeunload', refuse);
}

/** Asks the user for confirmation if something would be lost. */
export function mayLeave(): boolean {
  return question === null || confirm(question);
}

function refuse(event: BeforeUnloadEvent): void {
  event.preventDefault();
}
