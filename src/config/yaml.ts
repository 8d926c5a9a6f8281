import {
  type Document,
  isMap,
  isPair,
  isScalar,
  type LineCounter,
  type Node,
  isCollection,
  visit,
  type YAMLError,
} from 'yaml';

/** A path in the tree of a file: keys and indexes from its root. */
export type Path = readonly PropertyKey[];

export function offsetOf(document: Document, path: Path, place: 'key' | 'value'): number {
  let node: unknown = document.contents;
  let offset = startOf(node);
  for (const [index, step] of path.entries()) {
    if (isMap(node)) {
      const pair = node.items.find((item) => isScalar(item.key) && String(item.key.value) === String(step));
      if (pair === undefined) return offset;
      const last = index === path.length - 1;
      offset = last && place === 'key' ? startOf(pair.key) : startOf(pair.value) || startOf(pair.key);
      node = pair.value;
    } else {
      node = (node as { items?: unknown[] } | null)?.items?.[Number(step)];
      if (isPair(node) || node === undefined) return offset;
      offset = startOf(node);
    }
  }
  return offset;
}

/** @param written paths of what was expanded: the items of a list have the line of its text */
export function linesOf(
  document: Document,
  counter: LineCounter,
  written: Readonly<Record<string, string>>,
): Record<string, number> {
  const lines: Record<string, number> = {};
  const walk = (node: unknown, path: string): void => {
    const items = isMap(node) ? node.items : ((node as { items?: unknown[] } | null)?.items ?? []);
    for (const [i, item] of items.entries()) {
      const key = isPair(item) ? String((item.key as { value?: unknown }).value) : String(i);
      const below = path === '' ? key : `${path}.${key}`;
      lines[below] = counter.linePos(startOf(isPair(item) ? item.key : item)).line;
      walk(isPair(item) ? item.value : item, below);
    }
  };
  walk(document.contents, '');
  for (const path of Object.keys(written)) lines[path] ??= lines[path.slice(0, path.lastIndexOf('.'))] ?? 1;
  return lines;
}

function startOf(node: unknown): number {
  return (node as Node | null | undefined)?.range?.[0] ?? 0;
}

interface YamlFault {
  readonly at: number;
  readonly message: string;
}

/** Whether an alias or a pattern was meant: aliases are not supported. */
export const STAR =
  'a value that begins with "*" needs quotes: write "*" or "*:read"; YAML aliases are not supported';
export const TAGGED = 'tags ("!name") are not supported; put a value that begins with "!" in quotes';
export const MERGED = 'merge keys ("<<") are not supported; write the keys out';
/** In YAML 1.1, some values have another meaning. */
export const OLD_YAML = 'YAML 1.1 is not supported; remove this line';

/** Remedies by the parser's error code; its own messages quote the file, which may contain a secret. */
const REMEDIES: Readonly<Partial<Record<YAMLError['code'], string>>> = {
  BAD_ALIAS: STAR,
  BAD_DQ_ESCAPE: 'unknown escape in double quotes; use single quotes, or write "\\\\" for a backslash',
  BAD_INDENT: 'wrong indentation; begin keys of one mapping in the same column',
  BAD_SCALAR_START: 'a value cannot begin with this character; put the value in quotes',
  BLOCK_AS_IMPLICIT_KEY:
    'two keys on one line; write each "key: value" on its own line, and keys of one mapping in the same column',
  BLOCK_IN_FLOW: 'inside { } and [ ], write a comma between entries, and no indented block',
  DUPLICATE_KEY: 'this key is given twice',
  MISSING_CHAR: 'a ":" is missing in this line; write "key: value", or "key:" above an indented block',
  MULTILINE_IMPLICIT_KEY: 'a key spans several lines; is a ":" or a closing quote missing here or above?',
  MULTIPLE_DOCS: 'expected one document, found several ("---")',
  TAB_AS_INDENT: 'a tab in the indentation; indent with spaces',
  TAG_RESOLVE_FAILED: TAGGED,
  UNEXPECTED_TOKEN:
    'unexpected text here; put a value with { } [ ] in quotes, or add the comma or line break before it',
};

/** Beginnings of the parser's messages where a code stands for several faults. */
const KINDS: readonly (readonly [beginning: RegExp, remedy: string, opening?: 'quote' | 'bracket'])[] = [
  [/^Missing closing/, 'this quote is not closed; write the closing quote after the value', 'quote'],
  [/^Flow (map|sequence) in block/, 'this bracket is not closed; close it after the last entry', 'bracket'],
  [/^Missing , /, 'a comma is missing before this'],
  [/^Sequence item without/, REMEDIES.BAD_INDENT as string],
];

/** Returns the offset of a YAML syntax error, and its remedy. Quotes nothing of the file. */
export function describeYamlError({ code, pos, message }: YAMLError, document: Document): YamlFault {
  const [, remedy, opening] = KINDS.find(([beginning]) => beginning.test(message)) ?? [];
  return {
    at: opening === undefined ? pos[0] : openingAt(document, opening, pos[0]),
    message: remedy ?? REMEDIES[code] ?? 'this cannot be read as YAML; put the key or value in quotes',
  };
}

/** Returns where the innermost quoted text or bracket that reaches to an offset begins. */
function openingAt(document: Document, kind: 'quote' | 'bracket', end: number): number {
  let opening = end;
  visit(document, {
    Node: (_key, node) => {
      const isOpened =
        kind === 'bracket'
          ? isCollection(node) && node.flow
          : isScalar(node) && node.type?.startsWith('QUOTE');
      const [from, to] = node.range ?? [end, end];
      if (isOpened === true && from < end && to >= end) opening = from;
    },
  });
  return opening;
}

/** Control characters, and a line break that the parser takes for text: a comment would hide rules. */
// oxlint-disable-next-line no-control-regex
const FORBIDDEN = /[\0-\x08\v\f\x0E-\x1F]|\r(?!\n)/;

/** Returns the fault of the first character that a YAML file cannot contain. */
export function characterFault(text: string): YamlFault | undefined {
  const at = text.search(FORBIDDEN);
  if (at < 0) return undefined;
  if (text[at] === '\r')
    return { at, message: 'a carriage return without a line feed; end lines with LF or CRLF' };
  const code = text.charCodeAt(at).toString(16).toUpperCase().padStart(4, '0');
  return { at, message: `a control character (U+${code}); remove it, or write "\\u${code}" in quotes` };
}
