import type { YAMLError } from 'yaml';

interface Line {
  /** Offset in the text at which the line begins. */
  readonly at: number;
  readonly indent: number;
  /** Column after its last `- `; undefined when the line begins no list item. */
  readonly entry: number | undefined;
  /**
   * Whether an indented block may follow, because the line ends with a colon, a dash or a block
   * indicator.
   */
  readonly opens: boolean;
}

/**
 * Parser errors that a wrongly indented line may cause, and whether it is this line or the next.
 */
const SUSPECTS: Readonly<Partial<Record<YAMLError['code'], 'this' | 'next'>>> = {
  BAD_INDENT: 'this',
  MISSING_CHAR: 'this',
  BLOCK_AS_IMPLICIT_KEY: 'next',
  MULTILINE_IMPLICIT_KEY: 'next',
};

/** Returns the fault of a line whose column no line above opened; it names the possible columns. */
function indentationFault(
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

/**
 * Whether brackets are open at the end of a text, where columns do not matter. Brackets in quotes
 * count too.
 */
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

/** Returns the columns in which the next line may begin, deepest first. */
function columnsAbove(lines: readonly Line[]): number[] {
  const columns: number[] = [];
  let least = Infinity;
  for (const { indent, entry } of lines.toReversed()) {
    const column = entry ?? indent;
    if (column < least) columns.push(column);
    // The column of a dash may also begin another item, or a key next to the one that owns the
    // list.
    least = Math.min(least, entry === undefined ? indent : indent + 1);
  }
  return columns;
}

/**
 * Faults of YAML syntax and their remedies, by the parser's error code.
 *
 * The parser's own messages quote the file, which may contain a secret.
 */
const REMEDIES: Readonly<Partial<Record<YAMLError['code'], string>>> = {
  ALIAS_PROPS: 'an alias ("*name") takes no tag and no anchor; write the value out',
  BAD_ALIAS: 'a value that begins with "*" needs quotes: write "*"',
  BAD_DIRECTIVE: 'a line cannot begin with "%"; put the value in quotes',
  BAD_DQ_ESCAPE: 'unknown escape in double quotes; use single quotes, or write "\\\\" for a backslash',
  BAD_INDENT: 'wrong indentation; begin keys of one mapping in the same column',
  BAD_SCALAR_START: 'a value cannot begin with this character; put the value in quotes',
  BLOCK_AS_IMPLICIT_KEY: 'two keys on one line; write each "key: value" on a line of its own',
  BLOCK_IN_FLOW: 'an indented block inside { } or [ ]; write all of it inside the brackets, or none',
  DUPLICATE_KEY: 'this key is given twice',
  IMPOSSIBLE: 'this cannot be read as YAML; put the value in quotes',
  KEY_OVER_1024_CHARS: 'a key is too long; is a ":" or a quote missing?',
  MISSING_CHAR: 'something is missing here: a closing quote, bracket or brace, or a comma or a colon',
  MULTILINE_IMPLICIT_KEY: 'a key goes over several lines; is a ":" or a closing quote missing above?',
  MULTIPLE_DOCS: 'expected one document, found several ("---")',
  NON_STRING_KEY: 'a key must be text; put it in quotes',
  TAB_AS_INDENT: 'a tab in the indentation; indent with spaces',
  TAG_RESOLVE_FAILED: 'tags ("!name") are not supported; put a value that begins with "!" in quotes',
  UNEXPECTED_TOKEN: 'unexpected text here; is a quote, a comma or a line break missing before it?',
};

/** Returns the offset of a YAML syntax error, and its remedy. Quotes nothing of the file. */
export function describeYamlError({ code, pos }: YAMLError, text: string): { at: number; message: string } {
  return (
    indentationFault(code, pos[0], text) ??
    braceFault(pos[0], text) ?? {
      at: pos[0],
      message: REMEDIES[code] ?? 'this cannot be read as YAML',
    }
  );
}

/** Inside { } or [ ], a value without quotes ends at a "{". */
function braceFault(at: number, text: string): { at: number; message: string } | undefined {
  if (text[at] !== '{' || !/[^\s{[,:]/.test(text[at - 1] ?? ' ')) return undefined;
  const hint = text[at - 1] === '$' ? '' : '; a parameter of a path is written ":name"';
  return { at, message: `a value with "{" needs quotes inside { } and [ ]${hint}` };
}
