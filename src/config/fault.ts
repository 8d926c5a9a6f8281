import type { Path } from './yaml.js';
import { editDistance } from '../util/text.js';

export interface Fault {
  readonly file: string;
  readonly line: number;
  readonly column: number;
  readonly message: string;
}

/** A fault at a path, before it is located in the file. */
export interface Problem {
  readonly path: Path;
  readonly message: string;
}

/** Reports a problem at a path. The message is shown after the path. */
export type Add = (path: Path, message: string) => void;

export function problemsOf(check: (add: Add) => void): Problem[] {
  const problems: Problem[] = [];
  check((path, message) => {
    const at = path.length === 0 ? '' : `${path.map(String).join('.')}: `;
    problems.push({ path, message: at + message });
  });
  return problems;
}

/**
 * @param reasons other files that may be why
 * @throws ConfigError if there are problems
 */
export function throwProblems(
  problems: readonly Problem[],
  { fault }: { readonly fault: (path: Path, message: string) => Fault },
  reasons: readonly string[] = [],
): void {
  if (problems.length === 0) return;
  throw new ConfigError(
    problems.map(({ path, message }) => fault(path, message)),
    reasons,
  );
}

export function formatFault({ file, line, column, message }: Fault): string {
  return `${file}:${line}:${column}: ${message}`;
}

/** Thrown for a file that cannot be used; `reasons` are other files that may be why. */
export class ConfigError extends Error {
  readonly code = 'CONFIG_REFUSED';
  readonly faults: readonly Fault[];
  readonly reasons: readonly string[];

  constructor(faults: readonly Fault[], reasons: readonly string[] = []) {
    const sorted = faults.toSorted((a, b) => a.line - b.line || a.column - b.column);
    super(sorted.map(formatFault).join('\n'));
    this.faults = sorted;
    this.reasons = reasons;
  }
}

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

/** Returns ` (did you mean "x"?)` for similar names, or a few known names. */
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
