import type { z } from 'zod';
import { ConfigError, type Fault } from './fault.js';
import { nearest, suggestion } from './nearest.js';
import type { Path } from './positions.js';
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
  const missing = issue.code === 'invalid_type' && input === undefined;
  const found = missing ? 'nothing' : shown(input, issue.path);
  const message = messageOf(issue, input);
  return [
    source.fault(
      issue.path,
      `${at === '' ? '' : `${at}: `}${message}${found === undefined ? '' : `, found ${found}`}`,
    ),
  ];
}

const MAX_SHOWN = 60;
const SECRET_KEYS = new Set(['password', 'password_hash', 'otp_secret', 'key', 'key_sha256', 'sealing_key']);

/** A value as a fault shows it; a secret never is, and of an address not the part that logs in. */
function shown(input: unknown, path: Path): string | undefined {
  if (path.some((key) => SECRET_KEYS.has(String(key)))) return undefined;
  if (typeof input === 'object' && !Array.isArray(input)) return undefined;
  return JSON.stringify(input)
    ?.replace(/\/\/[^/@"]*@/g, '//***@')
    .slice(0, MAX_SHOWN);
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

/** Keys that the schema knows at a place, read from its JSON Schema-like shape. */
function knownKeys(schema: z.ZodType, path: Path): string[] {
  let here: unknown = schema;
  for (const step of path) {
    here = unwrap(here);
    const { shape, valueType, element } =
      (here as { def?: { shape?: Record<string, unknown>; valueType?: unknown; element?: unknown } }).def ??
      {};
    here = shape?.[String(step)] ?? valueType ?? element;
  }
  const { shape, options = [] } = unwrap(here) as { shape?: object; options?: unknown[] };
  const shapes =
    shape === undefined ? options.map((option) => (unwrap(option) as { shape?: object }).shape) : [shape];
  return shapes.flatMap((each) => Object.keys(each ?? {}));
}

function unwrap(schema: unknown): unknown {
  let here = schema as { def?: { innerType?: unknown; in?: unknown } } | undefined;
  for (let inner = here; inner !== undefined;) {
    here = inner;
    // What a default or a transformation stands around.
    inner = (here.def?.innerType ?? here.def?.in) as typeof here;
  }
  return here;
}
