import { editDistance } from '../util/text.js';

const MAX_LISTED = 8;
export const ALTERNATIVES = new Intl.ListFormat('en', { type: 'disjunction' });

export function nearest(name: string, known: readonly string[]): string | undefined {
  const longer = known.find((candidate) => name.length > 2 && candidate.startsWith(name));
  if (longer !== undefined) return longer;
  let best: string | undefined;
  let least = Math.max(2, Math.floor(name.length / 3)) + 1;
  for (const candidate of known) {
    const distance = editDistance(name.toLowerCase(), candidate.toLowerCase());
    if (distance < least) [best, least] = [candidate, distance];
  }
  return best;
}

/**
 * Returns ` (did you mean "x"?)` for a similar name or those that contain it as a word; else a few known
 * names.
 */
export function suggestion(name: string, known: readonly string[]): string {
  const names = [...new Set(known)];
  const found = nearest(name, names);
  const meant = found === undefined ? names.filter((each) => each.split('_').includes(name)) : [found];
  if (meant.length > 0) return ` (did you mean ${ALTERNATIVES.format(meant.map((each) => `"${each}"`))}?)`;
  return names.length > 0 && names.length <= MAX_LISTED ? ` (known: ${names.join(', ')})` : '';
}

/** Suggests only a similar id: any other one could be a secret in the wrong place. */
export function nearId(id: string, known: readonly string[], list: string): string {
  const near = nearest(id, known);
  return near === undefined ? `; write the id of one under ${list}` : ` (did you mean "${near}"?)`;
}

/** Whether a word is a typo of another one: one letter off, or two in longer words. */
export function isSlip(word: string, known: string): boolean {
  return word !== known && editDistance(word, known) <= (known.length < 6 ? 1 : 2);
}
