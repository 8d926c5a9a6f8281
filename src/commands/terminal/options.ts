import { type Command, InvalidArgumentError, Option } from 'commander';

export interface ReportOptions {
  readonly config: string;
  readonly json?: true;
}

/** What the name of a user is: a login, an id, or either of them if neither is set. */
export interface NamedBy {
  readonly login?: true;
  readonly id?: true;
}

export type UserOptions = ReportOptions & NamedBy;

export const configOption = (): Option =>
  new Option('--config <file>', 'the configuration file (YAML)').default('latchkey.yaml');

export const jsonOption = (): Option => new Option('--json', 'print JSON, for programs');

/** Every command that takes a user has these two, for a login that is also the id of another user. */
export const loginOption = (): Option =>
  new Option('--login', 'the user is given by login, not by id').conflicts('id');
export const idOption = (): Option => new Option('--id', 'the user is given by id, not by login');

/** Never an argument: arguments show in process lists. */
export const passwordFileOption = (): Option =>
  new Option('--password-file <file>', 'read the password from a file, or - for standard input');

/** An empty list is refused, since it was meant as a restriction. */
export function listOf(text: string, before: readonly string[] = []): string[] {
  const items = text
    .split(',')
    .map((item) => item.trim())
    .filter((item) => item !== '');
  if (items.length === 0)
    throw new InvalidArgumentError('Pass at least one, or omit the option for no restriction.');
  return [...before, ...items];
}

/** Parses a text that must not be empty, as from a variable that is not set. */
export function filled(text: string): string {
  if (text.trim() === '') throw new InvalidArgumentError('Pass a value, or omit the option.');
  return text;
}

export function urlFault(text: string, expected: string): InvalidArgumentError {
  const isPort = /^:?\d{1,5}$/.test(text);
  const host = isPort ? `127.0.0.1:${text.replace(':', '')}` : text;
  const isHost = /^[\w.-]+(?::\d+)?$/.test(host);
  return new InvalidArgumentError(isHost ? `Did you mean http://${host}?` : expected);
}

export function collect(value: string, values: readonly string[] = []): string[] {
  return [...values, value];
}

/** Kinds of files that have a schema. Kept apart from the schemas, which are slow to load. */
export const SCHEMA_KINDS = ['config', 'directory', 'expect', 'shadow'] as const;

export type SchemaKind = (typeof SCHEMA_KINDS)[number];

/** Keys of the configuration that people try as options of `serve`. */
const KEYS: Readonly<Record<string, string>> = {
  '--data': 'store.path',
  '--host': 'listen.host',
  '--port': 'listen.port',
  '--upstream': 'upstream',
  '--workers': 'workers',
};

export function hintFor(error: string, command: Command): string {
  if (error.startsWith("error: unknown command 'version'")) return '(write latchkey --version)';
  const [, flag = ''] = /^error: unknown option '(-[^']*)'/.exec(error) ?? [];
  const key = KEYS[flag];
  if (command.name() === 'serve' && key !== undefined) return `(set ${key} in the configuration)`;
  const takes = (option: string) => command.options.some(({ long }) => long === option);
  const takesConfig = takes('--config');
  if (takesConfig && flag === '-c') return '(Did you mean --config?)';
  if (takesConfig && error.startsWith('error: too many arguments'))
    return takes('--user')
      ? '(name the user with --user LOGIN, and the configuration with --config FILE)'
      : '(name the configuration with --config FILE)';
  return '';
}
