// Output of measurements: progress, tables, and the generated sections of pages.
import { existsSync, readFileSync, writeFileSync } from 'node:fs';

/**
 * Shows the current step on a terminal; the next call replaces it.
 *
 * @param {string} text
 */
export function progress(text) {
  if (process.stderr.isTTY) process.stderr.write(`\r\u001b[K${text}`);
}

/**
 * Formats a number with three significant digits, but all digits before the point, and thousands
 * separators.
 *
 * @param {number | null | undefined} value
 */
export function figure(value) {
  if (value === null || value === undefined || !Number.isFinite(value)) return '–';
  const digits = Math.abs(value) >= 100 ? 0 : Math.abs(value) >= 10 ? 1 : 2;
  return value.toLocaleString('en-US', { minimumFractionDigits: digits, maximumFractionDigits: digits });
}

/**
 * Formats a Markdown table. Columns of numbers are right-aligned.
 *
 * @param {string[]} head
 * @param {(string | number)[][]} rows
 * @param {number[]} [texts] the text columns
 */
export function table(head, rows, texts = [0]) {
  const rule = head.map((_, index) => (texts.includes(index) ? '---' : '---:'));
  return [tableRow(head), tableRow(rule), ...rows.map(tableRow)].join('\n');
}

/** @param {(string | number)[]} cells */
function tableRow(cells) {
  return `| ${cells.map((cell) => String(cell).replaceAll('|', '\\|')).join(' | ')} |`;
}

/**
 * Replaces the section between `<!-- NAME: begin -->` and `<!-- NAME: end -->` in the text of a
 * page.
 *
 * @throws Error if the page has no such section
 * @param {string} page
 * @param {string} name
 * @param {string} content
 */
export function replaceSection(page, name, content) {
  const [begin, end] = [`<!-- ${name}: begin -->`, `<!-- ${name}: end -->`];
  const [from, to] = [page.indexOf(begin), page.indexOf(end)];
  if (from < 0 || to < from) throw new Error(`the page has no "${begin}" before a "${end}"`);
  return `${page.slice(0, from + begin.length)}\n\n${content.trim()}\n\n${page.slice(to)}`;
}

/**
 * Writes sections into a page, formatted like the repository's files.
 *
 * @param {string} file
 * @param {Record<string, string>} sections
 */
export async function writeSections(file, sections) {
  let page = readFileSync(file, 'utf8');
  for (const [name, content] of Object.entries(sections)) page = replaceSection(page, name, content);
  await writeFormatted(file, page);
}

/**
 * Writes results to a file; existing results that were not measured this time stay.
 *
 * @param {string} file
 * @param {object} results
 */
export async function writeResults(file, results) {
  const before = existsSync(file) ? JSON.parse(readFileSync(file, 'utf8')) : {};
  await writeFormatted(file, JSON.stringify({ ...before, ...results }));
}

/**
 * @param {string} file
 * @param {string} text
 */
async function writeFormatted(file, text) {
  // Loaded on demand: it takes longer than everything else in this file.
  const { format, resolveConfig } = await import('prettier');
  writeFileSync(file, await format(text, { ...(await resolveConfig(file)), filepath: file }));
}
