// Loads the program, with the code that V8 compiled for it where that could be kept.
import { accessSync, constants, readFileSync, renameSync, writeFileSync } from 'node:fs';
import { createRequire, SourceMap } from 'node:module';
import { dirname, join } from 'node:path';
import { PerformanceObserver } from 'node:perf_hooks';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { getHeapSpaceStatistics, setFlagsFromString } from 'node:v8';
import { Script } from 'node:vm';

/**
 * What each file of the program is a function of, so that tests can run several programs in one
 * process. `programUrl` is its place in the package.
 */
export const PARAMETERS = /** @type {const} */ ([
  'require',
  'module',
  'exports',
  'programUrl',
  'process',
  'globalThis',
  'setTimeout',
  'setInterval',
  'setImmediate',
  'clearTimeout',
  'clearInterval',
]);

/** @typedef {(...args: unknown[]) => void} Evaluate a file, given {@link PARAMETERS} */
/** @typedef {{ evaluate: Evaluate, save: () => void }} Loaded */

/** Characters at the end of each file that tell its text from others of the same length. */
export const DIGEST_LENGTH = 16;
/** Maximum size of the young generation while the server runs: two halves of 4 MiB. */
const YOUNG_BYTES = 8 * 1024 * 1024;
export const PROGRAM = fileURLToPath(new URL('../dist/program/', import.meta.url));
const URL_OF_PROGRAM = pathToFileURL(join(PROGRAM, 'latchkey.cjs')).href;

/**
 * Compiles a file of the program.
 *
 * @param {string} file
 * @param {string} use what the process does with the program, for which it compiles certain functions
 * @returns {Loaded}
 */
export function load(file, use) {
  const text = readFileSync(file, 'latin1');
  const kept = `${file}.${text.slice(-DIGEST_LENGTH)}-${use}-${process.version}-${process.arch}`;
  const cachedData = contentsOf(kept);
  const script = new Script(text, { filename: file, ...(cachedData === undefined ? {} : { cachedData }) });
  return { evaluate: script.runInThisContext(), save: cachedData === undefined ? save : () => undefined };

  function save() {
    try {
      // Collecting the code costs milliseconds at every end, so not where it can't be kept.
      accessSync(dirname(file), constants.W_OK);
      // Another process may be reading it.
      writeFileSync(`${kept}.${process.pid}`, script.createCachedData());
      renameSync(`${kept}.${process.pid}`, kept);
    } catch {
      // The folder is read-only, as in the image, or full.
    }
  }
}

/** @param {string} file */
function contentsOf(file) {
  try {
    return readFileSync(file);
  } catch {
    return undefined;
  }
}

/**
 * Evaluates the program once.
 *
 * @param {(name: string) => Evaluate} evaluatorOf the files of the program
 * @param {(id: string) => unknown} require of all else
 * @param {readonly unknown[]} globals the rest of {@link PARAMETERS}
 * @returns {{ run: () => Promise<void> }}
 */
export function evaluate(evaluatorOf, require, globals) {
  /** @type {Map<string, { exports: unknown }>} */
  const modules = new Map();
  /** @param {string} id */
  const own = (id) => {
    if (!id.startsWith('./')) return require(id);
    let module = modules.get(id);
    if (module === undefined) {
      module = { exports: {} };
      modules.set(id, module);
      evaluatorOf(id)(own, module, module.exports, URL_OF_PROGRAM, ...globals);
    }
    return module.exports;
  };
  return /** @type {{ run: () => Promise<void> }} */ (own('./latchkey.cjs'));
}

/**
 * Runs the program in this process.
 *
 * @param {string} [folder]
 */
export async function start(folder = PROGRAM) {
  Error.prepareStackTrace = stackWithSources;
  const [use] = /^[a-z][a-z-]*$/.exec(process.argv[2] ?? '') ?? [];
  const growth = use === 'serve' ? 1 : 2;
  // What a start allocates makes the young generation grow, and V8 returns that only after a minute.
  setFlagsFromString(`--semi-space-growth-factor=${growth}`);
  /** @type {Loaded[]} */
  const files = [];
  const { run } = evaluate(
    (id) => {
      const file = load(join(folder, id), use ?? 'other');
      files.push(file);
      return file.evaluate;
    },
    createRequire(import.meta.url),
    [process, globalThis, setTimeout, setInterval, setImmediate, clearTimeout, clearInterval],
  );
  // Workers run what the primary runs.
  if (process.send === undefined && use !== undefined)
    process.on('exit', (code) => {
      if (code !== 0) return;
      // V8 accepts compiled code under the same flags only, and a server changes these three.
      setFlagsFromString(`--semi-space-growth-factor=${growth}`);
      setFlagsFromString('--allocation-site-pretenuring');
      setFlagsFromString('--heap-growing-percent=0');
      for (const { save } of files) save();
    });
  await run();
  if (use === 'serve') boundYoungGeneration();
  else setFlagsFromString('--semi-space-growth-factor=2');
}

/**
 * Lets the young generation grow to {@link YOUNG_BYTES}. V8's own bound of 32 MiB is most of what a
 * process would take under load, and saves 2 to 4 % of a request's CPU time.
 */
function boundYoungGeneration() {
  let growth = 0;
  const adjust = () => {
    const young = getHeapSpaceStatistics().find(({ space_name }) => space_name === 'new_space');
    const next = young === undefined || young.space_size >= YOUNG_BYTES ? 1 : 2;
    if (next !== growth) setFlagsFromString(`--semi-space-growth-factor=${(growth = next)}`);
  };
  adjust();
  new PerformanceObserver(adjust).observe({ type: 'gc' });
}

/** @type {Map<string, SourceMap | undefined>} */
const maps = new Map();

/**
 * Formats a stack as V8 does, with places of the source.
 *
 * @param {Error} error
 * @param {NodeJS.CallSite[]} sites
 */
function stackWithSources(error, sites) {
  // oxlint-disable-next-line typescript/no-base-to-string -- a call site has its own
  const lines = sites.map((site) => `\n    at ${inSource(site.toString(), site.getFileName())}`);
  return `${String(error)}${lines.join('')}`;
}

/**
 * @param {string} line
 * @param {string | null | undefined} file
 */
function inSource(line, file) {
  const [, row = 0, column = 0] = /:(\d+):(\d+)\)?$/.exec(line) ?? [];
  if (!file?.endsWith('latchkey.cjs') || row === 0) return line;
  if (!maps.has(file)) maps.set(file, mapOf(file));
  const entry = maps.get(file)?.findEntry(Number(row) - 1, Number(column) - 1);
  if (entry === undefined || !('originalSource' in entry) || !entry.originalSource) return line;
  const { originalSource, originalLine, originalColumn } = entry;
  const source = originalSource.replace(/^(?:\.\.\/)+/, '');
  return line.replace(`${file}:${row}:${column}`, `${source}:${originalLine + 1}:${originalColumn + 1}`);
}

/** @param {string} file */
function mapOf(file) {
  const text = contentsOf(`${file}.map`);
  return text === undefined ? undefined : new SourceMap(JSON.parse(text.toString()));
}
