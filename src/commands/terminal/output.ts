import { printable, printableLines } from '../../observe/printable.js';
import { print } from './print.js';

/**
 * Prints a value as JSON for programs, or a text for people.
 *
 * @param done what the command has done, if only this output could tell it
 * @throws OutputFailed
 */
export function report(options: { readonly json?: true }, value: unknown, text: string, done?: string): void {
  print(options.json ? asJson(value) : `${printableLines(text)}\n`, done);
}

/** Formats a value as indented JSON. Misleading characters of clients are escaped. */
export function asJson(value: unknown): string {
  return `${printableLines(JSON.stringify(value, null, 2))}\n`;
}

/**
 * Renders a table with a heading and aligned columns, two spaces apart. Columns that are empty in
 * every row are left out.
 */
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

/** Renders names and values, aligned, one pair per line. */
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

/** Formats a time relative to now, like `3 minutes ago` or `in 5 days`; null gives `never`. */
export function relativeTime(at: number | null, now: number, none = 'never'): string {
  if (at === null) return none;
  const step = STEPS.find(([, size]) => Math.abs(at - now) >= size);
  if (step === undefined) return at <= now ? 'just now' : 'in a moment';
  const relative = new Intl.RelativeTimeFormat('en', { numeric: 'always' });
  return relative.format(Math.trunc((at - now) / step[1]), step[0]);
}
