import { readFileSync } from 'node:fs';
import { dirname, isAbsolute, resolve } from 'node:path';
import { type Document, isAlias, isScalar, LineCounter, parseDocument, Scalar, visit } from 'yaml';
import { ConfigError, type Fault } from './fault.js';
import { linesOf, offsetOf, type Path } from './positions.js';

const MAX_BYTES = 32 * 1024 * 1024;

/** A YAML file that was read: its plain value, and where each part of it stands. */
export interface Source {
  readonly file: string;
  readonly value: unknown;
  /** The fault of a place; the nearest part that is there is named when the place itself is not. */
  fault(path: Path, message: string, at?: 'key' | 'value'): Fault;
  /** The line of every part of the file, from 1, by its path joined by dots. */
  readonly lines: Readonly<Record<string, number>>;
}

/**
 * Reads a YAML file with the positions of its parts, and expands `${NAME}` and `${file:PATH}` in its strings.
 *
 * @throws ConfigError with every fault of the YAML itself: syntax, duplicate keys, aliases, variables that are not set
 */
export function readSource(file: string, env: NodeJS.ProcessEnv): Source {
  const bytes = readBytes(file);
  const counter = new LineCounter();
  const document = parseDocument(bytes, {
    lineCounter: counter,
    uniqueKeys: true,
    prettyErrors: false,
    stringKeys: true,
  });
  const at = (offset: number, message: string): Fault => {
    const { line, col } = counter.linePos(offset);
    return { file, line: Math.max(1, line), column: Math.max(1, col), message };
  };
  const faults = [...document.errors, ...document.warnings].map((error) =>
    at(error.pos[0], yamlMessage(error.message)),
  );
  faults.push(...refuseAliases(document, at));
  if (faults.length === 0) faults.push(...expand(document, file, env, at));
  if (faults.length > 0) throw new ConfigError(faults);
  return {
    file,
    value: document.toJS() as unknown,
    fault: (path, message, place = 'value') => at(offsetOf(document, path, place), message),
    get lines() {
      return linesOf(document, counter);
    },
  };
}

function readBytes(file: string): string {
  const fail = (message: string) => new ConfigError([{ file, line: 1, column: 1, message }]);
  let bytes: Buffer;
  try {
    bytes = readFileSync(file);
  } catch (error) {
    throw fail(`can not be read (${(error as NodeJS.ErrnoException).code ?? 'unknown error'})`);
  }
  if (bytes.length > MAX_BYTES) throw fail(`is over ${MAX_BYTES} bytes`);
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes);
  } catch {
    throw fail('is not UTF-8 text');
  }
}

function yamlMessage(message: string): string {
  if (message.includes('Map keys must be unique')) return 'this key is given twice';
  if (message.includes('multiple documents')) return 'expected one document, found several ("---")';
  return message.split('\n', 1)[0] ?? message;
}

/** Aliases save little in a configuration and let a small file grow without bound, so none is taken. */
function refuseAliases(document: Document, at: (offset: number, message: string) => Fault): Fault[] {
  const faults: Fault[] = [];
  visit(document, {
    Node: (_key, node) => {
      if (isAlias(node))
        faults.push(at(node.range?.[0] ?? 0, 'aliases ("*name") are not taken; write the value out'));
    },
    Pair: (_key, pair) => {
      if (isScalar(pair.key) && pair.key.value === '__proto__') {
        faults.push(at(pair.key.range?.[0] ?? 0, 'unknown key "__proto__"'));
      }
    },
  });
  return faults;
}

function expand(
  document: Document,
  file: string,
  env: NodeJS.ProcessEnv,
  at: (offset: number, message: string) => Fault,
): Fault[] {
  const faults: Fault[] = [];
  visit(document, {
    Scalar: (key, node) => {
      if (key === 'key' || typeof node.value !== 'string' || !node.value.includes('${')) return;
      const expanded = expandText(node.value, dirname(file), env);
      if ('fault' in expanded) faults.push(at(node.range?.[0] ?? 0, expanded.fault));
      else node.value = node.type === Scalar.PLAIN ? retype(expanded.text, node.value) : expanded.text;
    },
  });
  return faults;
}

function expandText(
  text: string,
  folder: string,
  env: NodeJS.ProcessEnv,
): { text: string } | { fault: string } {
  let fault: string | undefined;
  const result = text.replace(/\$(\$?)\{([^}]*)\}/g, (whole, escaped: string, name: string) => {
    if (escaped) return whole.slice(1);
    const value = name.startsWith('file:') ? readSecret(resolve(folder, name.slice(5))) : env[name];
    if (value === undefined) {
      fault ??= name.startsWith('file:')
        ? `the file ${name.slice(5)} can not be read`
        : `the environment variable ${name} is not set`;
    }
    return value ?? '';
  });
  return fault === undefined ? { text: result } : { fault };
}

/** An unquoted `${PORT}` alone is the number that it expands to, as if it stood there itself. */
function retype(text: string, before: string): unknown {
  if (!/^\$\{[^}]*\}$/.test(before)) return text;
  if (/^-?\d{1,15}$/.test(text)) return Number(text);
  return text === 'true' ? true : text === 'false' ? false : text;
}

function readSecret(file: string): string | undefined {
  try {
    return readFileSync(file, 'utf8').replace(/\r?\n$/, '');
  } catch {
    return undefined;
  }
}

/** A path of the file, relative to the folder that the file is in. */
export function resolvePath(source: Source, path: string): string {
  return isAbsolute(path) ? path : resolve(dirname(source.file), path);
}
