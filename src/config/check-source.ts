import type { z } from 'zod';
import { ConfigError, type Fault } from './fault.js';
import { nearest, suggestion } from './nearest.js';
import { isSecret, knownKeys } from './schema-walk.js';
import type { Source } from './source.js';

/** Checks a source against a schema. @throws ConfigError with every fault, each with the nearest known name */
export function checkSource<T extends z.ZodType>(source: Source, schema: T): z.output<T> {
  const result = schema.safeParse(source.value ?? {}, { reportInput: true });
  if (result.success) return result.data;
  throw new ConfigError(result.error.issues.flatMap((issue) => faultsOf(source, schema, issue)));
}

function faultsOf(source: Source, schema: z.ZodType, issue: z.core.$ZodIssue): Fault[] {
  if (issue.code === 'unrecognized_keys') {
    const known = knownKeys(schema, issue.path);
    return issue.keys.map((key) =>
      source.fault([...issue.path, key], `unknown key "${key}"${suggestion(key, known)}`, 'key'),
    );
  }
  const at = issue.path.map(String).join('.');
  const input =
    issue.code === 'invalid_union' && issue.discriminator !== undefined
      ? valueAt(issue.input, issue.discriminator)
      : issue.input;
  const hidden = Object.hasOwn(source.written, at) || isSecret(schema, issue.path);
  const found = foundOf(issue, input, hidden);
  const message = `${at === '' ? '' : `${at}: `}${messageOf(issue, input)}${found === undefined ? '' : `, found ${found}`}`;
  return [source.fault(issue.path, message)];
}

/**
 * What stands there, as a fault shows it: its kind. Content is shown of numbers and of yes and no, unless it is a secret or
 * was expanded: a text may be a secret that got into the wrong place.
 */
function foundOf(issue: z.core.$ZodIssue, input: unknown, hidden: boolean): string | undefined {
  if (input === undefined) return issue.code === 'invalid_type' ? 'nothing' : undefined;
  if (input === null) return 'null';
  if (Array.isArray(input)) return input.length === 0 ? 'an empty list' : 'a list';
  if (typeof input === 'object') return isAboutKind(issue) ? 'a mapping' : undefined;
  if (typeof input === 'string') return input === '' ? 'none' : isAboutKind(issue) ? 'text' : undefined;
  return hidden ? `a ${typeof input}` : JSON.stringify(input);
}

/** Whether another kind of value is wanted, and not another content. */
function isAboutKind(issue: z.core.$ZodIssue): boolean {
  return (
    issue.code === 'invalid_type' || (issue.code === 'invalid_union' && issue.discriminator === undefined)
  );
}

/** What the field's users call the kinds of values in a YAML file. */
const KINDS: Readonly<Record<string, string>> = {
  array: 'a list like [a, b]',
  object: 'a mapping like { key: value }',
  record: 'a mapping like { key: value }',
  string: 'text',
};

function messageOf(issue: z.core.$ZodIssue, input: unknown): string {
  if (issue.code === 'invalid_type' && issue.message.startsWith('Invalid input')) {
    return `expected ${KINDS[issue.expected] ?? issue.expected}`;
  }
  const message = issue.message.replace('Invalid input: ', '');
  const values = issue.code === 'invalid_value' ? issue.values.map(String) : [];
  const meant = typeof input === 'string' ? nearest(input, values) : undefined;
  return meant === undefined ? message : `${message} (did you mean "${meant}"?)`;
}

function valueAt(value: unknown, key: string): unknown {
  return (value as Record<string, unknown> | null | undefined)?.[key];
}
