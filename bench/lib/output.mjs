// What a measurement says: progress, tables, and the parts of pages that it keeps up to date.
import { existsSync, readFileSync, writeFileSync } from 'node:fs';

/**
 * Tells on a terminal what is being done; the next call replaces it.
 *
 * @param {string} text
 */
export function progress(text) {
  if (process.stderr.isTTY) process.stderr.write(`\r\u001b[K${text}`);
}

/**
 * A number with as many digits as it deserves: three, but all before the point, with thousands marked.
 *
 * @param {number | null | undefined} value
 */
export function figure(value) {
  if (value === null || value === undefined || !Number.isFinite(value)) return '–';
  const digits = Math.abs(value) >= 100 ? 0 : Math.abs(value) >= 10 ? 1 : 2;
  return value.toLocaleString('en-US', { minimumFractionDigits: digits, maximumFractionDigits: digits });
}

/**
 * A Markdown table. Columns of numbers are aligned to the right.
 *
 * @param {string[]} head
 * @param {(string | number)[][]} rows
 * @param {number[]} [texts] the columns that are text
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
 * Replaces what stands between `<!-- NAME: begin -->` and `<!-- NAME: end -->` in the text of a page.
 *
 * @throws Error when the page has no such place
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
 * Writes sections into a page, formatted as the repository's files are.
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
 * Writes results down; those of a file that are not measured this time stay.
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
  // Loaded only here: it takes longer than everything else of this file.
  const { format, resolveConfig } = await import('prettier');
  writeFileSync(file, await format(text, { ...(await resolveConfig(file)), filepath: file }));
}
