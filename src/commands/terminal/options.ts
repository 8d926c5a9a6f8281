import { InvalidArgumentError, Option } from 'commander';

/** What commands take that print something of the store. */
export interface ReportOptions {
  readonly config: string;
  readonly json?: true;
}

/** Options that several commands share, so that they read the same everywhere. */
export const configOption = (): Option =>
  new Option('--config <file>', 'the configuration file (YAML)').default('latchkey.yaml');

export const jsonOption = (): Option => new Option('--json', 'print JSON, for programs');

/** Where a password comes from when nobody is there to type it. Never an argument: those show in process lists. */
export const passwordFileOption = (): Option =>
  new Option('--password-file <file>', 'read the password from a file, or - for standard input');

/** Reads `A,B` as a list; empty items are dropped. A list of none is refused: it was meant to restrict something. */
export function listOf(text: string): string[] {
  const items = text
    .split(',')
    .map((item) => item.trim())
    .filter((item) => item !== '');
  if (items.length === 0)
    throw new InvalidArgumentError('Name at least one, or leave the option out for no restriction.');
  return items;
}

/** What is wrong with a text where a URL is wanted. The scheme is easily left out. */
export function urlFault(text: string, expected: string): InvalidArgumentError {
  const isHost = /^[\w.-]+(?::\d+)?$/.test(text);
  return new InvalidArgumentError(isHost ? `Did you mean http://${text}?` : expected);
}

/** Reads an option that can be given several times. */
export function collect(value: string, values: readonly string[] = []): string[] {
  return [...values, value];
}
