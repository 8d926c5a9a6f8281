import type { z } from 'zod';
import { ConfigError, type Fault, formatFault, ALTERNATIVES, nearest, suggestion } from './fault.js';
import { exampleAt, isSecret, knownKeys } from './schema-walk.js';
import type { Path } from './yaml.js';
import type { Source } from './source.js';

/** @throws ConfigError with every fault */
export function checkSource<T extends z.ZodType>(source: Source, schema: T): z.output<T> {
  const result = schema.safeParse(source.value ?? {}, { reportInput: true });
  if (result.success) return result.data;
  const faults = result.error.issues.flatMap((issue) => faultsOf(source, schema, issue));
  throw new ConfigError([...new Map(faults.map((fault) => [formatFault(fault), fault])).values()]);
}

function faultsOf(source: Source, schema: z.ZodType, issue: z.core.$ZodIssue): Fault[] {
  if (issue.code === 'unrecognized_keys') {
    const known = knownKeys(schema, issue.path);
    return issue.keys.map((key) => {
      // The rest of a key may be its value, and so a secret.
      const name = /^[^\s:=$]+/.exec(key)?.[0] ?? key;
      const isSwallowed = name !== key && known.includes(name);
      const hint = isSwallowed
        ? `; write a colon and a space: "${name}: ..."`
        : nameHint(schema, issue.path, name, known);
      return source.fault([...issue.path, key], `unknown key "${name}"${hint}`, 'key');
    });
  }
  const at = issue.path.map(String).join('.');
  if (issue.code === 'invalid_key') {
    const rules = issue.issues.map(({ message }) => message).join(', ');
    return [source.fault(issue.path, `${at}: the name is wrong: ${rules}`, 'key')];
  }
  const input =
    issue.code === 'invalid_union' && issue.discriminator !== undefined
      ? (issue.input as Record<string, unknown>)[issue.discriminator]
      : issue.input;
  const hidden = Object.hasOwn(source.written, at) || isSecret(schema, issue.path);
  const found = foundOf(issue, input, hidden);
  const example = isAboutKind(issue) ? exampleAt(schema, issue.path) : undefined;
  const message = [
    at === '' ? '' : `${at}: `,
    messageOf(issue, input, example === undefined),
    found === undefined ? '' : `, found ${found}`,
    example === undefined ? '' : `; write ${keyOf(issue.path)} ${example}`,
    example === undefined && wantsQuotes(issue, input) ? '; put it in quotes' : '',
  ];
  return [source.fault(issue.path, message.join(''))];
}

function nameHint(schema: z.ZodType, path: Path, name: string, known: readonly string[]): string {
  if (known.includes(name)) return `; only the other type of ${String(path.at(-1))} has it`;
  const sections =
    path.length > 0 ? [] : knownKeys(schema, []).filter((each) => knownKeys(schema, [each]).includes(name));
  return sections.length > 0 ? `; it is a key of ${ALTERNATIVES.format(sections)}` : suggestion(name, known);
}

/** Describes a found value by its kind. Text is never shown: it may be a secret in the wrong place. */
function foundOf(issue: z.core.$ZodIssue, input: unknown, hidden: boolean): string | undefined {
  if (input === undefined) return issue.code === 'invalid_type' ? 'nothing' : undefined;
  if (input === null) return 'null';
  if (Array.isArray(input)) return input.length === 0 ? 'an empty list' : 'a list';
  if (typeof input === 'object') return isAboutKind(issue) ? 'a mapping' : undefined;
  if (typeof input === 'string') return input === '' ? 'none' : isAboutKind(issue) ? 'text' : undefined;
  if (hidden || (typeof input !== 'number' && typeof input !== 'boolean')) return `a ${typeof input}`;
  return String(input);
}

function keyOf(path: readonly PropertyKey[]): string {
  const last = path.at(-1);
  return typeof last === 'number' ? '-' : `${String(last)}:`;
}

function isAboutKind(issue: z.core.$ZodIssue): boolean {
  return (
    issue.code === 'invalid_type' || (issue.code === 'invalid_union' && issue.discriminator === undefined)
  );
}

function wantsQuotes(issue: z.core.$ZodIssue, input: unknown): boolean {
  const isUnquoted = typeof input === 'number' || typeof input === 'boolean';
  return isUnquoted && issue.code === 'invalid_type' && /^expected (text|an id)$/.test(issue.message);
}

const KINDS: Readonly<Record<string, readonly [name: string, form?: string]>> = {
  array: ['a list', '[a, b]'],
  object: ['a mapping', '{ key: value }'],
  record: ['a mapping', '{ key: value }'],
  string: ['text'],
};

function messageOf(issue: z.core.$ZodIssue, input: unknown, withForm: boolean): string {
  if (issue.code === 'invalid_type' && issue.message.startsWith('Invalid input')) {
    const [name = issue.expected, form] = KINDS[issue.expected] ?? [];
    return `expected ${name}${withForm && form !== undefined ? ` like ${form}` : ''}`;
  }
  if (issue.code === 'too_small' && issue.origin === 'array' && issue.message.startsWith('Too small'))
    return `expected at least ${String(issue.minimum)} ${Number(issue.minimum) === 1 ? 'entry' : 'entries'}`;
  const message = issue.message.replace('Invalid input: ', '');
  const values = issue.code === 'invalid_value' ? issue.values.map(String) : [];
  const meant = typeof input === 'string' ? nearest(input, values) : undefined;
  const isMeant = meant !== undefined && lettersOf(meant) !== lettersOf(String(input));
  return isMeant ? `${message} (did you mean "${meant}"?)` : message;
}

/** Removes the digits: names that differ only in digits are different versions, not typos. */
function lettersOf(name: string): string {
  return name.replaceAll(/\d/g, '');
}
