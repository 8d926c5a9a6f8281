import { writeSync } from 'node:fs';
import { describeSystemError } from '../../util/system-error.js';
import { printable, printableLines } from '../../util/text.js';

export class CommandFailed extends Error {
  readonly code: string = 'COMMAND_FAILED';
}

/** Thrown when a command is called with wrong arguments (exit code 2). */
export class WrongUsage extends CommandFailed {
  override readonly code = 'WRONG_USAGE';
}

export class OutputFailed extends CommandFailed {
  override readonly code = 'OUTPUT_FAILED';
  /** Whether its reader only wanted a part, like `head`, so that nothing needs to be reported. */
  readonly isQuiet: boolean;

  constructor(message: string, { isQuiet, cause }: { isQuiet: boolean; cause: unknown }) {
    super(message, { cause });
    this.isQuiet = isQuiet;
  }
}

const STDOUT = 1;
const BUSY_MS = 10;

/** @param done what the command has done, if only this text could tell it; added to the error */
export function print(text: string, done?: string): void {
  clearProgress();
  const bytes = Buffer.from(text);
  try {
    for (let written = 0; written < bytes.length;) written += writeSome(bytes.subarray(written));
  } catch (cause) {
    const reason = `standard output cannot be written: ${describeSystemError(cause)}`;
    throw new OutputFailed(done === undefined ? reason : `${reason}; ${done}`, {
      cause,
      isQuiet: done === undefined && (cause as NodeJS.ErrnoException).code === 'EPIPE',
    });
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

export function report(options: { readonly json?: true }, value: unknown, text: string, done?: string): void {
  print(options.json ? asJson(value) : `${printableLines(text)}\n`, done);
}

export async function reportTable(
  options: { readonly json?: true },
  value: unknown,
  heading: readonly string[],
  rows: readonly (readonly string[])[],
  none: string,
): Promise<void> {
  report(options, value, rows.length === 0 ? none : (await renderTable(heading, rows)).trimEnd());
}

/** Formats a value as indented JSON. Misleading characters of clients are escaped. */
export function asJson(value: unknown): string {
  return `${printableLines(JSON.stringify(value, null, 2))}\n`;
}

/** Columns that are empty in every row are left out. */
export async function renderTable(
  heading: readonly string[],
  rows: readonly (readonly string[])[],
): Promise<string> {
  const { default: stringWidth } = await import('string-width');
  const kept = heading.map((_, column) => column).filter((c) => rows.some((row) => (row[c] ?? '') !== ''));
  const cells = [heading, ...rows].map((row) => kept.map((c) => printable(row[c] ?? '')));
  const widths = kept.map((_, c) => Math.max(...cells.map((row) => stringWidth(row[c] ?? ''))));
  const lines = cells.map((row) =>
    row
      .map((text, c) => text + ' '.repeat((widths[c] ?? 0) - stringWidth(text)))
      .join('  ')
      .trimEnd(),
  );
  return `${lines.join('\n')}\n`;
}

export function renderRecord(record: Readonly<Record<string, string>>): string {
  const width = Math.max(...Object.keys(record).map((name) => name.length));
  return Object.entries(record)
    .map(([name, value]) => `${name.padEnd(width)}  ${printable(value)}\n`)
    .join('');
}

const STEPS: readonly [Intl.RelativeTimeFormatUnit, number][] = [
  ['year', 31_557_600_000],
  ['month', 2_629_800_000],
  ['day', 86_400_000],
  ['hour', 3_600_000],
  ['minute', 60_000],
];

export function relativeTime(at: number | null, now: number, none = 'never'): string {
  if (at === null) return none;
  const step = STEPS.find(([, size]) => Math.abs(at - now) >= size);
  if (step === undefined) return at <= now ? 'just now' : 'in a moment';
  const relative = new Intl.RelativeTimeFormat('en', { numeric: 'always' });
  return relative.format(Math.trunc((at - now) / step[1]), step[0]);
}

let isShown = false;

/** Shows the current step of a long command on a terminal; silent in a pipe or a log. */
export function showProgress(text: string): void {
  if (!process.stderr.isTTY) return;
  process.stderr.write(`\r\u001b[K${text}`);
  isShown = true;
}

export function clearProgress(): void {
  if (isShown) process.stderr.write('\r\u001b[K');
  isShown = false;
}

export function shellWord(value: string): string {
  return /^[\w@%+=:,./-]+$/.test(value) ? value : `'${value.replaceAll("'", `'\\''`)}'`;
}
