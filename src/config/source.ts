import { isUtf8 } from 'node:buffer';
import { dirname, resolve } from 'node:path';
import {
  type Document,
  isAlias,
  isPair,
  isScalar,
  isSeq,
  LineCounter,
  type Node,
  parseDocument,
  Scalar,
  visit,
  type YAMLSeq,
} from 'yaml';
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
  const written = expand(document, file, schema, env, onlySecrets, at);
  return {
    file,
    value: document.toJS() as unknown,
    fault: (path, message, place = 'value') => at(offsetOf(document, path, place), message),
    written,
    lines: linesOf(document, counter),
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

/** Returns the text of the file where something was expanded. @throws ConfigError */
function expand(
  document: Document,
  file: string,
  schema: z.ZodType,
  env: NodeJS.ProcessEnv,
  onlySecrets: boolean,
  at: (offset: number, message: string) => Fault,
): Record<string, string> {
  const written: Record<string, string> = {};
  const faults: Fault[] = [];
  const lists: [path: string[], list: Node][] = [];
  visit(document, {
    Scalar: (key, node, ancestors) => {
      if (key === 'key' || typeof node.value !== 'string' || !node.value.includes('${')) return;
      const before = node.value;
      const path = pathOf(key, ancestors);
      const isAllowed = !onlySecrets || isSecret(schema, path);
      const expanded = expandText(before, dirname(file), env, isAllowed);
      if (expanded.expands && !isAllowed) {
        const message = `"\${...}" is expanded in ${secretKeys(schema).join(', ')} only; write "$\${...}" for the literal text`;
        faults.push(at(node.range?.[0] ?? 0, `${path.join('.')}: ${message}`));
      } else if ('fault' in expanded) faults.push(at(node.range?.[0] ?? 0, expanded.fault));
      else if (ALONE.test(before) && holdsList(schema, path)) {
        const list = listOf(document, expanded.text, node);
        lists.push([path, list]);
        written[path.join('.')] = before;
        for (const i of list.items.keys()) written[[...path, i].join('.')] = before;
      } else {
        node.value = node.type === Scalar.PLAIN ? retype(expanded.text, before) : expanded.text;
        if (expanded.expands) written[path.join('.')] = before;
      }
    },
  });
  // Not during the visit, which would expand what the items contain.
  for (const [path, list] of lists) document.setIn(path, list);
  if (faults.length > 0) throw new ConfigError(faults);
  return written;
}

/** Returns the values that commas separate, at the position of the text that they replace. */
function listOf(document: Document, text: string, { range = null }: Scalar): YAMLSeq<Scalar> {
  const values = text.split(',').flatMap((value) => value.trim() || []);
  const list = document.createNode(values) as YAMLSeq<Scalar>;
  for (const node of [list, ...list.items]) node.range = range;
  return list;
}

function pathOf(key: number | string | null, ancestors: readonly unknown[]): string[] {
  const path: string[] = [];
  for (const [i, each] of ancestors.entries()) {
    if (isPair(each)) path.push(String((each.key as Scalar).value));
    else if (isSeq(each)) path.push(String(each.items.indexOf(ancestors[i + 1])));
  }
  if (typeof key === 'number') path[path.length - 1] = String(key);
  return path;
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

/** Converts an unquoted `${PORT}` alone to a number or boolean, as if it were in the file. */
function retype(text: string, before: string): unknown {
  if (!ALONE.test(before)) return text;
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
