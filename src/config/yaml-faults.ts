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

/**
 * What is wrong with the YAML of a file and what to write instead, by the parser's codes. The parser's own sentences quote
 * the file, where a secret may stand.
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

/** A syntax error of YAML: where it is, and what to write instead. Nothing of the file is quoted. */
export function describeYamlError({ code, pos }: YAMLError, text: string): { at: number; message: string } {
  return (
    indentationFault(code, pos[0], text) ??
    braceFault(pos[0], text) ?? {
      at: pos[0],
      message: REMEDIES[code] ?? 'this cannot be read as YAML',
    }
  );
}

/** A value with "{" in it ends there where it stands inside { } or [ ] without quotes. */
function braceFault(at: number, text: string): { at: number; message: string } | undefined {
  if (text[at] !== '{' || !/[^\s{[,:]/.test(text[at - 1] ?? ' ')) return undefined;
  const hint = text[at - 1] === '$' ? '' : '; a parameter of a path is written ":name"';
  return { at, message: `a value with "{" needs quotes inside { } and [ ]${hint}` };
}
