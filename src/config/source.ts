import { isUtf8 } from 'node:buffer';
import { dirname, resolve } from 'node:path';
import { type Document, isAlias, isScalar, LineCounter, parseDocument, Scalar, visit } from 'yaml';
import type { z } from 'zod';
import { describeSystemError } from '../util/system-error.js';
import { readRegularFile } from '../files/files.js';
import { ConfigError, type Fault } from './fault.js';
import {
  linesOf,
  offsetOf,
  type Path,
  characterFault,
  describeYamlError,
  MERGED,
  OLD_YAML,
  STAR,
  TAGGED,
} from './yaml.js';
import { holdsList, isSecret, secretKeys } from './schema-walk.js';

/** A parsed YAML file: its plain value, and the positions of its parts. */
export interface Source {
  readonly file: string;
  readonly value: unknown;
  /** Creates a fault at a path, or at its nearest existing ancestor. */
  fault(path: Path, message: string, at?: 'key' | 'value'): Fault;
  /** The line of every part of the file, from 1, by its path joined by dots, in the file's order. */
  readonly lines: Readonly<Record<string, number>>;
  /** Text of the file where something was expanded, like `${NAME}`, by its path joined by dots. */
  readonly written: Readonly<Record<string, string>>;
}

/**
 * Reads a YAML file with the positions of its parts, and expands `${NAME}` and `${file:PATH}` in
 * its strings. One alone, where the schema has a list, becomes a list.
 *
 * @param onlySecrets expands nothing but values that the schema marks as secrets; elsewhere it is a fault
 * @throws ConfigError with every fault of the YAML itself: syntax, duplicate keys, aliases, unset
 *   variables
 */
export function readSource(
  file: string,
  schema: z.ZodType,
  env: NodeJS.ProcessEnv,
  onlySecrets = false,
): Source {
  const read = readText(file);
  if ('fault' in read) throw new ConfigError([{ file, line: 1, column: 1, message: read.fault }]);
  const text = read.value;
  const counter = new LineCounter();
  const document = parseDocument(text, {
    lineCounter: counter,
    uniqueKeys: true,
    prettyErrors: false,
    stringKeys: true,
  });
  const at = (offset: number, message: string): Fault => {
    const { line, col } = counter.linePos(offset);
    return { file, line: Math.max(1, line), column: Math.max(1, col), message };
  };
  const character = characterFault(text);
  const errors = [...document.errors, ...document.warnings];
  // The parser's errors would be about what follows from such a character.
  const found = character ? [character] : errors.map((error) => describeYamlError(error, document));
  const faults = firstOfEachLine(found.map(({ at: offset, message }) => at(offset, message)));
  if (faults.length === 0) faults.push(...refuseUnsupported(document, text, at));
  if (faults.length > 0) throw new ConfigError(faults);
  const fault: Source['fault'] = (path, message, place = 'value') =>
    at(offsetOf(document, path, place), message);
  const { value, written } = expand(document, { file, fault }, schema, env, onlySecrets);
  return {
    file,
    value,
    fault,
    written,
    // A directory file may be large, and needs none.
    get lines() {
      return linesOf(document, counter, written);
    },
  };
}

/** Keeps the first fault of each line: a parser may report one mistake as several errors. */
function firstOfEachLine(faults: readonly Fault[]): Fault[] {
  return faults.filter(({ line }, i) => faults.findIndex((other) => other.line === line) === i);
}

/** Returns the text of a file, or a fault that continues its name. */
function readText(file: string): Replacement {
  try {
    const bytes = readRegularFile(file);
    // Replacement characters would change a secret.
    return isUtf8(bytes) ? { value: new TextDecoder().decode(bytes) } : { fault: 'is not UTF-8 text' };
  } catch (error) {
    return { fault: `cannot be read: ${describeSystemError(error)}` };
  }
}

/** The tags of values that JSON has too. Others make values that schemas take for empty mappings. */
const TAGS = /^tag:yaml\.org,2002:(?:str|int|float|bool|null|map|seq)$/;

/**
 * Refuses aliases, which let a small file grow without bound, and other features of YAML that would
 * be read as something else than what is written.
 */
function refuseUnsupported(
  document: Document,
  text: string,
  at: (offset: number, message: string) => Fault,
): Fault[] {
  const faults: Fault[] = [];
  // It would turn the words yes and off into flags, and 0777 and 1:30 into other numbers.
  if (document.directives?.yaml.version === '1.1') faults.push(at(text.search(/^%YAML/m), OLD_YAML));
  visit(document, {
    Node: (_key, node) => {
      const offset = node.range?.[0] ?? 0;
      if (isAlias(node)) faults.push(at(offset, STAR));
      else if (node.tag !== undefined && !TAGS.test(node.tag)) faults.push(at(offset, TAGGED));
    },
    Pair: (_key, { key }) => {
      if (!isScalar(key)) return;
      const offset = key.range?.[0] ?? 0;
      if (key.value === '__proto__') faults.push(at(offset, 'unknown key "__proto__"'));
      if (key.value === '<<' && key.type === Scalar.PLAIN) faults.push(at(offset, MERGED));
    },
  });
  return faults;
}

/** Returns the value of a document with its strings expanded. @throws ConfigError */
function expand(
  document: Document,
  { file, fault }: Pick<Source, 'file' | 'fault'>,
  schema: z.ZodType,
  env: NodeJS.ProcessEnv,
  onlySecrets: boolean,
): Pick<Source, 'value' | 'written'> {
  const written: Record<string, string> = {};
  const faults: Fault[] = [];
  const expandString = (text: string, path: readonly string[]): unknown => {
    const at = path.join('.');
    const isAllowed = !onlySecrets || isSecret(schema, path);
    const expanded = expandText(text, dirname(file), env, isAllowed);
    if (expanded.expands && !isAllowed) {
      const message = `"\${...}" is expanded in ${secretKeys(schema).join(', ')} only; write "$\${...}" for the literal text`;
      faults.push(fault(path, `${at}: ${message}`));
      return text;
    }
    if ('fault' in expanded) {
      faults.push(fault(path, expanded.fault));
      return text;
    }
    if (expanded.expands) written[at] = text;
    if (!ALONE.test(text)) return expanded.text;
    if (!holdsList(schema, path)) {
      const { type } = document.getIn(path, true) as Scalar;
      return type === Scalar.PLAIN ? retype(expanded.text) : expanded.text;
    }
    const values = expanded.text.split(',').flatMap((value) => value.trim() || []);
    for (const i of values.keys()) written[`${at}.${i}`] = text;
    return values;
  };
  const expandValue = (value: unknown, path: readonly string[]): unknown => {
    if (typeof value === 'string') return value.includes('${') ? expandString(value, path) : value;
    if (Array.isArray(value)) return value.map((each, i) => expandValue(each, [...path, String(i)]));
    if (typeof value !== 'object' || value === null) return value;
    return Object.fromEntries(
      Object.entries(value).map(([key, each]) => [key, expandValue(each, [...path, key])]),
    );
  };
  const value = expandValue(document.toJS(), []);
  if (faults.length > 0) throw new ConfigError(faults);
  return { value, written };
}

const UNCLOSED = 'this "${" is not closed; write ${NAME}, or "$${" for a literal "${"';
/** One `${...}` and nothing else. */
const ALONE = /^\$\{[^}]*\}$/;
const NAME = /^[A-Za-z_][A-Za-z0-9_]*$/;

type Expanded = { readonly expands: boolean } & ({ readonly text: string } | { readonly fault: string });

/** @param isAllowed whether `${...}` is expanded here; else an unclosed one is ordinary text */
function expandText(text: string, folder: string, env: NodeJS.ProcessEnv, isAllowed: boolean): Expanded {
  let fault: string | undefined;
  let expands = false;
  const result = text.replace(
    /\$(\$?)\{([^}]*)(\}?)/g,
    (whole, escaped: string, name: string, end: string) => {
      if (escaped) return whole.slice(1);
      if (end === '' && !isAllowed) return whole;
      expands = true;
      const expanded =
        end === ''
          ? { fault: UNCLOSED }
          : name.startsWith('file:')
            ? readSecret(folder, name.slice('file:'.length))
            : variable(name, env);
      if ('fault' in expanded) fault ??= expanded.fault;
      return 'fault' in expanded ? '' : expanded.value;
    },
  );
  return fault === undefined ? { expands, text: result } : { expands, fault };
}

/** Converts what an unquoted `${PORT}` stands for to a number or boolean, as if it were in the file. */
function retype(text: string): unknown {
  if (/^-?\d{1,15}$/.test(text)) return Number(text);
  return text === 'true' ? true : text === 'false' ? false : text;
}

type Replacement = { readonly value: string } | { readonly fault: string };

/** @param text `NAME`, or `NAME:-default` for a default if the variable is unset or empty */
function variable(text: string, env: NodeJS.ProcessEnv): Replacement {
  const end = text.indexOf(':-');
  const name = end < 0 ? text : text.slice(0, end);
  const value = env[name];
  if (value !== undefined && (value !== '' || end < 0)) return { value };
  if (end >= 0 && NAME.test(name)) return { value: text.slice(end + 2) };
  return {
    fault: NAME.test(name)
      ? `the environment variable ${name} is not set`
      : 'expected ${NAME}, ${NAME:-default} or ${file:PATH}; write "$${" for a literal "${"',
  };
}

/** Reads a file without a line break at its end. @param path relative to the folder */
function readSecret(folder: string, path: string): Replacement {
  const read = readText(resolve(folder, path));
  return 'fault' in read
    ? { fault: `the file ${path} ${read.fault}` }
    : { value: read.value.replace(/\r?\n$/, '') };
}
