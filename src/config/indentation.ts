import type { YAMLError } from 'yaml';

interface Line {
  /** Where it begins in the text. */
  readonly at: number;
  readonly indent: number;
  /** The column behind its last `- `; undefined when it begins no list entry. */
  readonly entry: number | undefined;
  /** Whether a block may follow: it ends in a colon or a dash. */
  readonly opens: boolean;
}

/** Errors of a parser for which a line in a wrong column may be the cause, and whether that is the next line. */
const SUSPECTS: Readonly<Partial<Record<YAMLError['code'], 'this' | 'next'>>> = {
  BAD_INDENT: 'this',
  MISSING_CHAR: 'this',
  BLOCK_AS_IMPLICIT_KEY: 'next',
  MULTILINE_IMPLICIT_KEY: 'next',
};

/** The fault of a line in a column that no line above it opened: says which columns there are. */
export function indentationFault(
  code: YAMLError['code'],
  offset: number,
  text: string,
): { at: number; message: string } | undefined {
  const suspect = SUSPECTS[code];
  const lineEnd = text.indexOf('\n', offset);
  if (suspect === undefined || (suspect === 'next' && lineEnd < 0)) return undefined;
  const from = suspect === 'this' ? text.lastIndexOf('\n', offset - 1) + 1 : lineEnd + 1;
  const before = text.slice(0, from);
  const above = linesOf(before);
  const line = linesOf(text.slice(from))[0];
  const last = above.at(-1);
  if (line === undefined || last === undefined || last.opens || isInBrackets(before)) return undefined;
  const columns = columnsAbove(above);
  if (columns.includes(line.indent)) return undefined;
  const choices = columns.map((column) => (column === 0 ? 'no' : column)).join(' or ');
  const owner = above.at(-2);
  const isEmpty = owner?.opens === true && owner.indent === last.indent && line.indent > last.indent;
  return {
    at: from + line.at,
    message:
      'wrong indentation; begin keys of one mapping in the same column: ' +
      `write ${choices} spaces here, not ${line.indent}${isEmpty ? ', or as many in the line above' : ''}`,
  };
}

/** Whether brackets are open behind a text, where columns mean nothing. Those in quotes count too. */
function isInBrackets(text: string): boolean {
  return [...text.matchAll(/[[{]/g)].length !== [...text.matchAll(/[\]}]/g)].length;
}

function linesOf(text: string): Line[] {
  return [...text.matchAll(/^( *)((?:- +)*)([^\s#].*)$/gm)].map((match) => {
    const [, { length: indent } = '', { length: dashes } = '', rest = ''] = match;
    return {
      at: match.index,
      indent,
      entry: dashes === 0 ? undefined : indent + dashes,
      opens: /(?::|^-)\s*(?:#.*)?$/.test(rest) || /[|>][-+]?\s*$/.test(rest),
    };
  });
}

/** The columns in which the next line may begin, the deepest first. */
function columnsAbove(lines: readonly Line[]): number[] {
  const columns: number[] = [];
  let least = Infinity;
  for (const { indent, entry } of lines.toReversed()) {
    const column = entry ?? indent;
    if (column < least) columns.push(column);
    // In the column of a dash another entry may begin, or a key that the list belongs to.
    least = Math.min(least, entry === undefined ? indent : indent + 1);
  }
  return columns;
}
