/** What is asked before a view is left; null when nothing would be lost. */
let question: string | null = null;

/** Sets what is asked before the view or the page is left. The browser words its own question for the latter. */
export function askBeforeLeaving(text: string | null): void {
  question = text;
  if (text === null) removeEventListener('beforeunload', refuse);
  else addEventListener('beforeunload', refuse);
}

/** Asks the reader, where something would be lost. */
export function mayLeave(): boolean {
  return question === null || confirm(question);
}

function refuse(event: BeforeUnloadEvent): void {
  event.preventDefault();
}
