import type { YAMLError } from 'yaml';
import { indentationFault } from './indentation.js';

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
