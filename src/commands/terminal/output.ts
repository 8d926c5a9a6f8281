// src/commands/terminal: options, output and errors, prompts.
// May import what commands may.
// Nothing here knows a command.

import { writeSync } from 'node:fs';
import { describeSystemError } from '../../util/system-error.js';
import { printable, printableLines } from '../../util/text.js';

export class CommandFailed extends Error {}

/** Thrown when a command is called with wrong arguments (exit code 2). */
export class WrongUsage extends CommandFailed {}

/** Its reader only wanted a part, like `head`, so nothing needs to be reported. */
export class OutputClosed extends CommandFailed {}

const STDOUT = 1;
const BUSY_MS = 10;

/** @param done what the command has done, if only this text could tell it; added to the error */
export function print(text: string, done?: string): void {
  const bytes = Buffer.from(text);
  try {
    for (let written = 0; written < bytes.length;) written += writeSome(bytes.subarray(written));
  } catch (cause) {
    const reason = `standard output cannot be written: ${describeSystemError(cause)}`;
    if (done !== undefined) throw new CommandFailed(`${reason}; ${done}`, { cause });
    const isClosed = (cause as NodeJS.ErrnoException).code === 'EPIPE';
    throw isClosed ? new OutputClosed(reason) : new CommandFailed(reason, { cause });
  }
}

/** Writes some of the bytes, and returns how many; 0 when the reader has to catch up first. */
function writeSome(bytes: Buffer): number {
  try {
    return writeSync(STDOUT, bytes);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EAGAIN') throw error;
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, BUSY_MS);
    return 0;
  }
}

const PROGRESS_MS = 2_000;

/** Passes records on, and says on a terminal now and then how many were. @param done what is done with them */
export async function* withProgress<T>(records: AsyncIterable<T>, done: string): AsyncGenerator<T> {
  let count = 0;
  let toldAt = performance.now();
  for await (const record of records) {
    yield record;
    count += 1;
    if (!process.stderr.isTTY || performance.now() - toldAt < PROGRESS_MS) continue;
    process.stderr.write(`${count} records ${done}\n`);
    toldAt = performance.now();
  }
}

export function report(options: { readonly json?: true }, value: unknown, text: string, done?: string): void {
  print(options.json ? asJson(value) : `${printableLines(text)}\n`, done);
}

export async function reportList(
  options: { readonly json?: true },
  value: unknown,
  rows: readonly object[],
  columns: readonly string[],
  none: string,
): Promise<void> {
  report(options, value, rows.length === 0 ? none : (await renderList(rows, columns)).trimEnd());
}

/** Prints a list of any length: as one array, or as a table in parts. */
export async function reportParts(
  options: { readonly json?: true },
  parts: AsyncIterable<readonly object[]>,
  columns: readonly string[],
  none: string,
): Promise<void> {
  let start = '[';
  for await (const part of parts) {
    if (options.json) print(start + asJson(part).slice(1, -'\n]\n'.length));
    else print(await renderList(part, columns));
    start = ',';
  }
  if (start === '[') report(options, [], none);
  else if (options.json) print('\n]\n');
}

/** Columns that are empty in every row are left out. */
export async function renderList(rows: readonly object[], columns: readonly string[]): Promise<string> {
  const { default: stringWidth } = await import('string-width');
  const shown = rows.map((row) =>
    columns.map((name) => printable(cellOf((row as Readonly<Record<string, Cell>>)[name]))),
  );
  const kept = columns.map((_, c) => c).filter((c) => shown.some((row) => row[c] !== ''));
  const headings = columns.map((name) => name.replace(/_(?:at|id)$/, '').replaceAll('_', ' ').toUpperCase()); // prettier-ignore
  const cells = [headings, ...shown].map((row) => kept.map((c) => row[c] ?? ''));
  const widths = kept.map((_, c) => Math.max(...cells.map((row) => stringWidth(row[c] ?? ''))));
  const lines = cells.map((row) =>
    row.map((text, c) => text + ' '.repeat((widths[c] ?? 0) - stringWidth(text))).join('  ').trimEnd(),
  ); // prettier-ignore
  return `${lines.join('\n')}\n`;
}

type Cell = string | number | boolean | readonly string[] | null | undefined;

/** Shows a value of JSON: a time as its distance from now, and what is not set as an empty text. */
function cellOf(value: Cell): string {
  if (value === true) return 'yes';
  if (value === false || value === null || value === undefined) return '';
  return isTime(value) ? relativeTime(Date.parse(value), Date.now()) : String(value);
}

function isTime(value: Cell): value is string {
  return typeof value === 'string' && /^\d{4}-\d\d-\d\dT[\d:.]+(?:Z|\+00:00)$/.test(value);
}

export function reportRecord(options: { readonly json?: true }, value: object): void {
  const shown = Object.entries(value as Readonly<Record<string, Cell>>)
    .map(([name, field]) => [name.replaceAll('_', ' '), field === false ? 'no' : cellOf(field), isTime(field) ? `  ${field}` : ''] as const)
    .filter(([, text]) => text !== '');
  const width = Math.max(...shown.map(([name]) => name.length));
  const lines = shown.map(([name, text, time]) => `${name.padEnd(width)}  ${printable(text)}${time}`);
  report(options, value, lines.join('\n'));
} // prettier-ignore

export function asJson(value: unknown): string {
  return `${printableLines(JSON.stringify(value, null, 2))}\n`;
}

const STEPS: readonly [Intl.RelativeTimeFormatUnit, number][] = [
  ['year', 31_557_600_000],
  ['month', 2_629_800_000],
  ['day', 86_400_000],
  ['hour', 3_600_000],
  ['minute', 60_000],
];

/** Made once: each takes much memory. */
let relative: Intl.RelativeTimeFormat | undefined;

export function relativeTime(at: number, now: number): string {
  const step = STEPS.find(([, size]) => Math.abs(at - now) >= size);
  if (step === undefined) return at <= now ? 'just now' : 'in a moment';
  relative ??= new Intl.RelativeTimeFormat('en', { numeric: 'always' });
  return relative.format(Math.trunc((at - now) / step[1]), step[0]);
}

export function shellWord(value: string): string {
  return /^[\w@%+=:,./-]+$/.test(value) ? value : `'${value.replaceAll("'", `'\\''`)}'`;
}
