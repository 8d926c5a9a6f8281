import { describePosition } from '../policy/rules.js';
import type { FoundChanges } from './find-changes.js';
import { shown } from './render-explanation.js';
import type { Change } from './situation.js';

/** Maximum number of lines shown per list. */
const MAX_LINES = 20;

const DESCRIBED = {
  allowed: 'This describes the rules. It is not advice to widen them.',
  refused: 'This describes the rules. It is not advice to narrow them.',
} as const;

/** Renders the changes that would reverse a decision, as text. */
export function renderChanges({ answer, single, pairs, complete }: FoundChanges): string {
  const what = `It would be ${answer}`;
  const lines = [
    ...(single.length > 0 ? [`${what} if one of these were true:`, ...listed(grouped(single))] : []),
    ...(pairs.length > 0
      ? [`${what} if two of these were true together:`, ...listed(groupedPairs(pairs))]
      : []),
  ];
  if (lines.length === 0)
    lines.push(
      `${what} by no single change of the caller, a rule or the route, nor by any two changes together.`,
    );
  const bounded = complete ? [] : ['Not all changes were tried: there are too many roles, scopes and rules.'];
  return shown(['', ...lines, ...bounded, ...(single.length + pairs.length > 0 ? [DESCRIBED[answer]] : [])]);
}

/** Returns the changes that would reverse a decision, for JSON output. */
export function changesObject({ answer, single, pairs, complete }: FoundChanges) {
  return { answer, single: single.map(changeObject), pairs: pairs.map((pair) => pair.map(changeObject)), complete };
} // prettier-ignore

function changeObject({ kind, words, value, position }: Change) {
  return { kind, change: words, value, place: position };
}

function listed(lines: readonly string[]): string[] {
  const more = lines.length - MAX_LINES;
  const kept = lines.slice(0, MAX_LINES).map((line) => `  - ${line}`);
  return more > 0 ? [...kept, `  - and ${more} more, which --json shows`] : kept;
}

/** Merges changes with the same words into one line with all their values. */
function grouped(changes: readonly Change[]): string[] {
  return inGroups(changes, wordsOf).map((group) => textOf(group));
}

/** Merges pairs that differ only in the value of the first change into one line. */
function groupedPairs(pairs: readonly (readonly [Change, Change])[]): string[] {
  const groups = inGroups(pairs, ([a, b]) => `${wordsOf(a)}, and ${textOf([b])}`);
  return groups.map((group) => `${textOf(group.map(([a]) => a))}, and ${textOf(group[0].slice(1) as [Change])}`);
} // prettier-ignore

function inGroups<T>(all: readonly T[], keyOf: (each: T) => string): [T, ...T[]][] {
  const groups = new Map<string, [T, ...T[]]>();
  for (const each of all) {
    const group = groups.get(keyOf(each));
    if (group === undefined) groups.set(keyOf(each), [each]);
    else group.push(each);
  }
  return [...groups.values()];
}

function wordsOf({ words, position }: Change): string {
  return `${words} ${position === null ? '' : position.path}`;
}

/** Renders changes that share the same words, with all their values. */
function textOf(group: readonly Change[]): string {
  const [{ words, position } = { words: '', position: null }] = group;
  const values = group.flatMap(({ value }) => value ?? []);
  const value = values.length === 0 ? '' : ` ${values.join(' or ')}`;
  return `${words}${value}${position === null ? '' : ` (${describePosition(position)})`}`;
}
