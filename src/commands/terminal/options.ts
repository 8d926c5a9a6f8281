import { Command, InvalidArgumentError, Option } from 'commander';

export interface ReportOptions {
  readonly config: string;
  readonly json?: true;
}

export const configOption = (): Option =>
  new Option('--config <file>', 'the configuration file (YAML)').default('latchkey.yaml');

export function withConfig(name: string, description: string): Command {
  return new Command(name).description(description).addOption(configOption());
}

export const jsonOption = (): Option => new Option('--json', 'print JSON, for programs');

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

export function count(text: string): number {
  if (/^[1-9]\d{0,8}$/.test(text)) return Number(text);
  throw new InvalidArgumentError('Expected a number from 1 on.');
}

export function httpUrl(text: string): URL {
  if (/^https?:\/\/[^?#@\s]+$/i.test(text) && URL.canParse(text)) return new URL(text);
  const isHost = /^[\w.-]+(?::\d+)?$/.test(text);
  throw new InvalidArgumentError(
    isHost ? `Did you mean http://${text}?` : 'Expected a URL like http://127.0.0.1:3000.',
  );
}

export function originUrl(text: string): URL {
  const url = httpUrl(text);
  if (url.pathname === '/') return url;
  throw new InvalidArgumentError('Expected a URL without a path, like http://127.0.0.1:3000.');
}

export function collect(value: string, values: readonly string[] = []): string[] {
  return [...values, value];
}

/** Kinds of files that have a schema. Kept apart from the schemas, which are slow to load. */
export const SCHEMA_KINDS = ['config', 'directory', 'expect', 'shadow'] as const;

export type SchemaKind = (typeof SCHEMA_KINDS)[number];

/** Calls a function of a module that is loaded only then; its result, if any, is the exit code. */
export function calls<M>(load: () => Promise<M>, name: keyof M) {
  return async (...args: unknown[]): Promise<void> => {
    const work = (await load())[name] as (...args: unknown[]) => Promise<number | undefined>;
    const code = await work(...args);
    if (code !== undefined) process.exitCode = code;
  };
}
