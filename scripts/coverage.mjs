#!/usr/bin/env node
// Measures the coverage of src by the unit tests: npm run coverage. Lists the untested branches of
// the folders that make decisions.
import { spawnSync } from 'node:child_process';
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join, relative, resolve } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { bundlePath } from '../test/loader/bundle.mjs';
import { filesOf, tasksOf } from '../test/loader/tasks.mjs';

/** @typedef {{ startOffset: number, endOffset: number, count: number }} Range */
/** @typedef {{ url: string, functions: { ranges: Range[] }[] }} Script of V8's coverage */
/**
 * @typedef {{ offset: number, source: string, at: string }} Segment `at` is line and column, from 0
 */
/** @typedef {Map<string, boolean>} Ran whether each position ran */
/** @typedef {Map<string, { ran: Ran, skipped: Set<string> }>} Sources */

const ROOT = resolve(import.meta.dirname, '..');
/** Folders of src for which every untested branch is listed. */
const LISTED = ['gate', 'policy', 'http', 'pipeline'];
const DIGITS = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/';

const folder = mkdtempSync(join(tmpdir(), 'latchkey-coverage-'));
try {
  const env = { ...process.env, NODE_V8_COVERAGE: folder };
  const { status } = spawnSync('npm', ['run', '--silent', 'test:unit'], { cwd: ROOT, env, stdio: 'inherit' });
  report();
  process.exitCode = status ?? 1;
} finally {
  rmSync(folder, { recursive: true });
}

function report() {
  /**
   * By source: whether each position ran in some test, and the positions of branches that did not
   * run.
   *
   * @type {Sources}
   */
  const sources = new Map();
  const bundles = new Set(tasksOf(filesOf(['unit'])).map(({ name }) => pathToFileURL(bundlePath(name)).href));
  for (const name of readdirSync(folder)) {
    /** @type {{ result: Script[] }} */
    const { result } = JSON.parse(readFileSync(join(folder, name), 'utf8'));
    for (const script of result) {
      if (bundles.has(script.url)) add(sources, script);
    }
  }
  const files = [...sources].map(([file, { ran, skipped }]) => ({ file, ran, skipped })).toSorted((a, b) => (a.file < b.file ? -1 : 1));
  print('\nfolder      lines run\n');
  for (const [name, members] of groups(files)) {
    const lines = members.map(({ ran }) => linesOf(ran));
    const all = lines.flatMap((each) => [...each.values()]);
    print(`${name.padEnd(12)}${((100 * all.filter(Boolean).length) / all.length).toFixed(1)} %\n`);
  }
  for (const { file, ran, skipped } of files) {
    if (!LISTED.includes(folderOf({ file }))) continue;
    const text = readFileSync(join(ROOT, file), 'utf8').split('\n');
    const never = [...skipped].filter((at) => !ran.get(at)).map((at) => Number(at.split(':', 1)[0]));
    for (const line of [...new Set(never)].toSorted((a, b) => a - b)) print(`${file}:${line + 1}: never taken: ${text[line]?.trim()}\n`);
  }
} // prettier-ignore

/**
 * Adds the coverage of one bundle.
 *
 * @param {Sources} sources
 * @param {Script} script
 */
function add(sources, { url, functions }) {
  const file = fileURLToPath(url);
  const bundle = readFileSync(file, 'utf8');
  const segments = segmentsOf(bundle, dirname(file));
  const counts = new Int32Array(bundle.length).fill(1);
  const ranges = functions.flatMap((each) => each.ranges);
  // Sorted by length, longest first, so that inner ranges override outer ones.
  for (const { startOffset, endOffset, count } of ranges.toSorted((a, b) => b.endOffset - b.startOffset - (a.endOffset - a.startOffset)))
    counts.fill(count, startOffset, endOffset);
  for (const { offset, source, at } of segments) {
    const known = sources.get(source) ?? { ran: new Map(), skipped: new Set() };
    sources.set(source, known);
    known.ran.set(at, known.ran.get(at) === true || counts[offset] > 0);
  }
  for (const { startOffset, endOffset, count } of ranges) {
    const first = count === 0 ? firstWithin(segments, startOffset, endOffset) : undefined;
    if (first !== undefined) sources.get(first.source)?.skipped.add(first.at);
  }
} // prettier-ignore

/**
 * @param {Segment[]} segments
 * @param {number} start
 * @param {number} end
 */
function firstWithin(segments, start, end) {
  let low = 0;
  for (let high = segments.length; low < high;) {
    const middle = (low + high) >> 1;
    if (segments[middle].offset < start) low = middle + 1;
    else high = middle;
  }
  return segments[low]?.offset < end ? segments[low] : undefined;
}

/**
 * Returns the segments of a bundle's source map that lead to src, by their offset in the bundle.
 *
 * @param {string} bundle
 * @param {string} base
 * @returns {Segment[]}
 */
function segmentsOf(bundle, base) {
  const marker = '//# sourceMappingURL=data:application/json;base64,';
  /** @type {{ sources: string[], mappings: string }} */
  const map = JSON.parse(Buffer.from(bundle.slice(bundle.lastIndexOf(marker) + marker.length), 'base64').toString());
  const names = map.sources.map((source) => relative(ROOT, resolve(base, source)));
  const starts = [0];
  for (let i = bundle.indexOf('\n'); i >= 0; i = bundle.indexOf('\n', i + 1)) starts.push(i + 1);
  const segments = [];
  let [source, line, column] = [0, 0, 0];
  for (const [row, text] of map.mappings.split(';').entries()) {
    let generated = 0;
    for (const segment of text === '' ? [] : text.split(',')) {
      const [skip = 0, ...original] = decode(segment);
      generated += skip;
      if (original.length === 0) continue;
      source += original[0];
      line += original[1];
      column += original[2];
      if (names[source].startsWith('src/')) segments.push({ offset: starts[row] + generated, source: names[source], at: `${line}:${column}` });
    }
  }
  return segments;
} // prettier-ignore

/**
 * Decodes the numbers of a source map: base 64, five bits at a time, the lowest first, with the
 * sign in the lowest bit.
 *
 * @param {string} text
 */
function decode(text) {
  const numbers = [];
  let [value, shift] = [0, 0];
  for (const character of text) {
    const digit = DIGITS.indexOf(character);
    value |= (digit & 31) << shift;
    shift += 5;
    if ((digit & 32) !== 0) continue;
    numbers.push((value & 1) === 0 ? value >> 1 : -(value >> 1));
    [value, shift] = [0, 0];
  }
  return numbers;
}

/** @param {{ file: string }} source */
function folderOf({ file }) {
  return file.split('/').length > 2 ? file.split('/')[1] : 'src';
}

/**
 * @template {{ file: string }} T
 * @param {T[]} files
 */
function groups(files) {
  /** @type {Map<string, T[]>} */
  const found = new Map();
  for (const each of files) found.set(folderOf(each), [...(found.get(folderOf(each)) ?? []), each]);
  return found;
}

/**
 * A line ran if any part of it did.
 *
 * @param {Ran} ran
 */
function linesOf(ran) {
  /** @type {Ran} */
  const lines = new Map();
  for (const [at, yes] of ran) {
    const line = at.split(':', 1)[0];
    lines.set(line, lines.get(line) === true || yes);
  }
  return lines;
}

/** @param {string} text */
function print(text) {
  process.stdout.write(text);
}
