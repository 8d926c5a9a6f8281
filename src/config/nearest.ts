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

function editDistance(a: string, b: string): number {
  let row = Array.from({ length: b.length + 1 }, (_, i) => i);
  for (let i = 1; i <= a.length; i++) {
    const next = [i];
    for (let j = 1; j <= b.length; j++) {
      const replace = (row[j - 1] ?? 0) + (a[i - 1] === b[j - 1] ? 0 : 1);
      next.push(Math.min(replace, (row[j] ?? 0) + 1, (next[j - 1] ?? 0) + 1));
    }
    row = next;
  }
  return row[b.length] ?? 0;
}

/** Whether a word is a typo of another one: one letter off, or two in longer words. */
export function isSlip(word: string, known: string): boolean {
  return word !== known && editDistance(word, known) <= (known.length < 6 ? 1 : 2);
}
