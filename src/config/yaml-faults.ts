import type { YAMLError } from 'yaml';
import { openingsOf } from './yaml-openings.js';

interface Line {
  /** Offset in the text at which the line begins. */
  readonly at: number;
  readonly indent: number;
  /** Column after its last `- `; undefined when the line begins no list item. */
  readonly entry: number | undefined;
  /**
   * Whether an indented block may follow, because the line ends with a colon, a dash or a block indicator.
   */
  readonly opens: boolean;
}

interface YamlFault {
  readonly at: number;
  readonly message: string;
}

/** Parser errors that a wrongly indented line may cause, and whether it is this line or the next. */
const SUSPECTS: Readonly<Partial<Record<YAMLError['code'], 'this' | 'next'>>> = {
  BAD_INDENT: 'this',
  MISSING_CHAR: 'this',
  BLOCK_AS_IMPLICIT_KEY: 'next',
  MULTILINE_IMPLICIT_KEY: 'next',
};

/** Returns the fault of a line whose column no line above opened; it names the possible columns. */
function indentationFault(code: YAMLError['code'], offset: number, text: string): YamlFault | undefined {
  const suspect = SUSPECTS[code];
  const lineEnd = text.indexOf('\n', offset);
  if (suspect === undefined || (suspect === 'next' && lineEnd < 0)) return undefined;
  const from = suspect === 'this' ? text.lastIndexOf('\n', offset - 1) + 1 : lineEnd + 1;
  const before = text.slice(0, from);
  const above = linesOf(before);
  const line = linesOf(text.slice(from))[0];
  const last = above.at(-1);
  if (line === undefined || last === undefined || last.opens) return undefined;
  // Inside brackets, columns do not matter.
  if (openingsOf(before).bracket !== undefined) return undefined;
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
    // The column of a dash may also begin another item, or a key next to the one that owns the list.
    least = Math.min(least, entry === undefined ? indent : indent + 1);
  }
  return columns;
}

const NO_COLON = 'a ":" is missing in this line; write "key: value", or "key:" above an indented block';

/** Whether an alias or a pattern was meant: aliases are not supported. */
export const STAR =
  'a value that begins with "*" needs quotes: write "*" or "*:read"; YAML aliases are not supported';

export const TAGGED = 'tags ("!name") are not supported; put a value that begins with "!" in quotes';

export const MERGED = 'merge keys ("<<") are not supported; write the keys out';

/** A directive for a version in which some values have another meaning. */
export const OLD_YAML = 'YAML 1.1 is not supported; remove this line';

/** Remedies by the parser's error code; its own messages quote the file, which may contain a secret. */
const REMEDIES: Readonly<Partial<Record<YAMLError['code'], string>>> = {
  ALIAS_PROPS: 'an alias ("*name") takes no tag and no anchor; write the value out',
  BAD_ALIAS: STAR,
  BAD_DIRECTIVE: 'a line cannot begin with "%"; put the value in quotes',
  BAD_DQ_ESCAPE: 'unknown escape in double quotes; use single quotes, or write "\\\\" for a backslash',
  BAD_INDENT: 'wrong indentation; begin keys of one mapping in the same column',
  BAD_SCALAR_START: 'a value cannot begin with this character; put the value in quotes',
  BLOCK_AS_IMPLICIT_KEY: 'two keys on one line; write each "key: value" on its own line',
  BLOCK_IN_FLOW: 'inside { } and [ ], write a comma between entries, and no indented block',
  DUPLICATE_KEY: 'this key is given twice',
  IMPOSSIBLE: 'this cannot be read as YAML; put the value in quotes',
  KEY_OVER_1024_CHARS: 'a key is too long; is a ":" or a quote missing?',
  MISSING_CHAR: NO_COLON,
  MULTILINE_IMPLICIT_KEY: 'a key spans several lines; is a ":" or a closing quote missing above?',
  MULTIPLE_DOCS: 'expected one document, found several ("---")',
  NON_STRING_KEY: 'a key must be text; put it in quotes',
  TAB_AS_INDENT: 'a tab in the indentation; indent with spaces',
  TAG_RESOLVE_FAILED: TAGGED,
  UNEXPECTED_TOKEN: 'unexpected text here; is a quote, a comma or a line break missing before it?',
};

/**
 * Control characters, and a line break of YAML that the parser takes for text: a comment would hide rules
 * behind it.
 */
// oxlint-disable-next-line no-control-regex
const FORBIDDEN = /[\0-\x08\v\f\x0E-\x1F]|\r(?!\n)/;

export function characterFault(text: string): YamlFault | undefined {
  const at = text.search(FORBIDDEN);
  if (at < 0) return undefined;
  if (text[at] === '\r')
    return { at, message: 'a carriage return without a line feed; end lines with LF or CRLF' };
  const code = text.charCodeAt(at).toString(16).toUpperCase().padStart(4, '0');
  return { at, message: `a control character (U+${code}); remove it, or write "\\u${code}" in quotes` };
}

/** Returns the offset of a YAML syntax error, and its remedy. Quotes nothing of the file. */
export function describeYamlError({ code, pos }: YAMLError, text: string): YamlFault {
  return (
    openingFault(code, pos[0], text) ??
    lineFault(code, pos[0], text) ??
    indentationFault(code, pos[0], text) ??
    braceFault(pos[0], text) ?? {
      at: pos[0],
      message: REMEDIES[code] ?? 'this cannot be read as YAML',
    }
  );
}

/** Returns the fault of a quote or bracket without its partner, or of a comma missing in brackets. */
function openingFault(code: YAMLError['code'], at: number, text: string): YamlFault | undefined {
  if (code === 'UNEXPECTED_TOKEN' && /[\]}]/.test(text[at] ?? ''))
    return { at, message: `this "${text[at]}" closes nothing; remove it` };
  if (code !== 'BAD_INDENT' && code !== 'MISSING_CHAR') return undefined;
  const { quote, bracket } = openingsOf(text.slice(0, at));
  if (quote !== undefined)
    return { at: quote, message: 'this quote is not closed; write the closing quote after the value' };
  if (bracket === undefined) return undefined;
  if (code === 'MISSING_CHAR') return { at, message: 'a comma is missing before this' };
  const [open, close] = text[bracket] === '{' ? ['{', '}'] : ['[', ']'];
  return { at: bracket, message: `this "${open}" is not closed; write "${close}" after the last entry` };
}

function lineFault(code: YAMLError['code'], at: number, text: string): YamlFault | undefined {
  const from = text.lastIndexOf('\n', at - 1) + 1;
  const [line = ''] = text.slice(from).split('\n', 1);
  const dash = /^ *(?:- +)*-(?=[^\s-])/.exec(line);
  if (code === 'BLOCK_AS_IMPLICIT_KEY' && dash !== null)
    return { at: from + dash[0].length, message: 'write a space after "-"' };
  const isWithoutColon = /^[^\s"'#]/.test(text.slice(at)) && !/:(?:\s|$)/.test(line);
  return code === 'MULTILINE_IMPLICIT_KEY' && isWithoutColon ? { at, message: NO_COLON } : undefined;
}

/** Inside { } or [ ], a value without quotes ends at a "{". */
function braceFault(at: number, text: string): YamlFault | undefined {
  if (text[at] !== '{' || !/[^\s{[,:]/.test(text[at - 1] ?? ' ')) return undefined;
  const hint =
    text[at - 1] === '$'
      ? '; for a number, true or false, write the key on a line of its own, without { }'
      : '; a parameter of a path is written ":name"';
  return { at, message: `a value with "{" needs quotes inside { } and [ ]${hint}` };
}
