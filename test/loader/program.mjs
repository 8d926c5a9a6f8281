// Builds the program that tests start: the build in dist as one file, with V8's compiled code. It
// starts in a third of the processor time, and the suite starts hundreds of them.
import { spawn, spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import {
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { once } from 'node:events';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { setFlagsFromString } from 'node:v8';

/** @import { BuildOptions, Plugin } from 'esbuild' */
/** @import { Script } from 'node:vm' */

const SELF = fileURLToPath(import.meta.url);
const ROOT = resolve(import.meta.dirname, '../..');
const DIST = join(ROOT, 'dist');
const PASSWORDS = join(DIST, 'accounts/passwords.js');
const FOLDER = join(ROOT, 'node_modules/.cache/tests/program');
const ZOD = join(ROOT, 'node_modules/zod/index.js');
const STAMPS = join(FOLDER, 'stamps.json');
/** What the program takes from whoever evaluates it, beside `require`, `module` and `exports`. */
const GLOBALS = {
  process,
  globalThis,
  setTimeout,
  setInterval,
  setImmediate,
  clearTimeout,
  clearInterval,
};
const NAMES = Object.keys(GLOBALS).join(', ');
/**
 * Modules without state that take half of a start: all programs of a process share them, and what
 * they import.
 */
const SHARED = ['zod', 'config/schema/config.js', 'config/schema/directory-file.js', 'endpoints/schema/requests.js', 'endpoints/schema/responses.js']; // prettier-ignore
/** Age of unused files, in milliseconds; longer than a run of the suite. */
const UNUSED_MS = 3_600_000;
const PROGRAM = join(FOLDER, 'latchkey.cjs');

/** Checking the build takes a tenth of a start, and the build does not change during a test. */
let isUpToDate = false;

/**
 * Returns the path of the program, which is rebuilt if the build changed since the last process
 * asked.
 */
export function programOf() {
  if (!isUpToDate && isOutdated()) {
    const { status } = spawnSync(process.execPath, [SELF], { stdio: 'inherit' });
    if (status !== 0) throw new Error('no program to test: run "npm run build" first');
  }
  isUpToDate = true;
  return PROGRAM;
}

/** @typedef {(require: unknown, module: unknown, exports: unknown, process: unknown, global: unknown, ...timers: unknown[]) => void} Evaluate */
/** @type {Evaluate | undefined} */
let evaluate;

/** Returns the function that evaluates the program anew. */
export function evaluatorOf() {
  if (evaluate !== undefined) return evaluate;
  programOf();
  const { file } = JSON.parse(readFileSync(STAMPS, 'utf8'));
  evaluate = /** @type {Evaluate} */ (scriptOf(file, createRequire(SELF)).runInThisContext());
  return evaluate;
}

function isOutdated() {
  try {
    /** @type {{ root: string, stamps: [file: string, stamp: string][] }} */
    const { root, stamps } = JSON.parse(readFileSync(STAMPS, 'utf8'));
    return root !== ROOT || stamps.some(([file, stamp]) => stampOf(file) !== stamp);
  } catch (error) {
    if (/** @type {NodeJS.ErrnoException} */ (error).code === 'ENOENT') return true;
    throw error;
  }
}

/** @param {string} file */
function stampOf(file) {
  const { mtimeMs, size } = statSync(file);
  return `${mtimeMs} ${size}`;
}

/** Builds the program from dist. */
async function make() {
  mkdirSync(FOLDER, { recursive: true });
  const roots = SHARED.map((name) => `import ${JSON.stringify(name.endsWith('.js') ? join(DIST, name) : name)};`);
  const found = await bundle({ stdin: { contents: roots.join('\n'), resolveDir: ROOT } });
  const paths = found.sources.filter((path) => path.startsWith(DIST) || path === ZOD);
  const shared = await bundle({
    stdin: { contents: paths.map((path, i) => `export * as m${i} from ${JSON.stringify(path)};`).join('\n'), resolveDir: ROOT },
    plugins: [asInDist],
  });
  const sharedFile = saved(shared.text);
  const loader = sharedFile.replace('.cjs', '.shared.cjs');
  replace(loader, `const script = (${String(scriptOf)})(${JSON.stringify(sharedFile)}, require);\nscript.runInThisContext()(require, module, module.exports, ${NAMES});\nmodule.exports.script = script;\n`);
  const { text, sources } = await bundle({
    entryPoints: [join(DIST, 'cli.js')],
    external: [...EXTERNAL, loader],
    plugins: [fromShared(paths, loader), asInDist],
  });
  const stamps = [...sources, ...shared.sources, SELF, join(ROOT, 'package-lock.json')].map((file) => [file, stampOf(file)]);
  const file = saved(text);
  await compile(file, loader);
  replace(PROGRAM, `(${String(scriptOf)})(${JSON.stringify(file)}, require).runInThisContext()(require, module, module.exports, ${NAMES});\nif (require.main === module) void module.exports.run();\n`);
  replace(STAMPS, JSON.stringify({ root: ROOT, file, stamps }));
  removeOld();
} // prettier-ignore

/** These load binaries from their own folders. */
const EXTERNAL = ['lmdb', '@node-rs/argon2'];

/**
 * Bundles modules as the body of a CommonJS module.
 *
 * @param {BuildOptions} options
 */
async function bundle(options) {
  const { build } = await import('esbuild');
  const { outputFiles, metafile } = await build({
    absWorkingDir: ROOT,
    write: false,
    bundle: true,
    format: 'cjs',
    platform: 'node',
    target: 'node20',
    external: EXTERNAL,
    // A script with cached code cannot use import().
    supported: { 'dynamic-import': false },
    minifyWhitespace: true,
    logLevel: 'error',
    ...options,
    metafile: true,
  });
  const sources = Object.keys(metafile?.inputs ?? {}).filter((name) => !/^<stdin>$|^shared:/.test(name));
  return { text: outputFiles?.[0]?.text ?? '', sources: sources.map((name) => resolve(ROOT, name)) };
}

/**
 * Saves a bundle as a function under a name of its own: V8 matches cached code to a text only by
 * its length.
 *
 * @param {string} body
 */
function saved(body) {
  const text = `(function (require, module, exports, ${NAMES}) {${body.replace(/^#!.*/, '')}\n})`;
  const file = join(FOLDER, `${createHash('sha256').update(text).digest('hex').slice(0, 16)}.cjs`);
  replace(file, text);
  return file;
}

/**
 * Takes modules from the ones that programs share.
 *
 * @param {string[]} paths
 * @param {string} loader
 * @returns {Plugin}
 */
const fromShared = (paths, loader) => ({
  name: 'from-shared',
  setup(build) {
    build.onResolve({ filter: /^\..*\.js$|^zod$/ }, ({ path, resolveDir }) => {
      const i = paths.findIndex((file) => file === (path === 'zod' ? ZOD : resolve(resolveDir, path)));
      return i === -1 ? undefined : { path: `m${i}`, namespace: 'shared' };
    });
    build.onLoad({ filter: /.*/, namespace: 'shared' }, ({ path }) => ({
      contents: `module.exports = require(${JSON.stringify(loader)}).${path};`,
      resolveDir: ROOT,
    }));
  },
});

/** Removes files of earlier builds. Running tests may still start the latest one. */
function removeOld() {
  for (const name of readdirSync(FOLDER)) {
    const stats = statSync(join(FOLDER, name), { throwIfNoEntry: false });
    if (stats !== undefined && stats.mtimeMs < Date.now() - UNUSED_MS)
      rmSync(join(FOLDER, name), { force: true });
  }
}

/** @type {Plugin} */
const asInDist = {
  name: 'as-in-dist',
  setup(build) {
    build.onLoad({ filter: /\.js$/ }, ({ path }) => {
      if (!path.startsWith(DIST)) return undefined;
      const text = path === PASSWORDS ? cheapened(path) : readFileSync(path, 'utf8');
      const contents = text.replaceAll('import.meta.url', JSON.stringify(pathToFileURL(path).href));
      if (path !== join(DIST, 'cli.js')) return { contents };
      // The command uses await, which CommonJS does not allow at the top level.
      const body = contents.search(/^(?!import |#!)/m);
      return {
        contents: `${contents.slice(0, body)}export const run = async () => {${contents.slice(body)}\n};`,
      };
    });
  },
};

/**
 * Reduces the memory of a password hash from 46 MiB to 1 MiB, as in the directories of the tests:
 * the suite logs in thousands of times. Tests of the cost start the installed program.
 *
 * @param {string} path
 */
function cheapened(path) {
  const text = readFileSync(path, 'utf8');
  const cheaper = text.replace('{ memoryCost: 47_104, timeCost: 1 }', '{ memoryCost: 1_024, timeCost: 1 }');
  if (cheaper === text) throw new Error(`${path} has another cost of passwords`);
  return cheaper;
}

/**
 * Returns the program with its cached code, unless another version of Node compiled it. The source of
 * this function becomes part of the program that tests start.
 *
 * @param {string} file
 * @param {NodeJS.Require} require
 * @returns {Script}
 */
function scriptOf(file, require) {
  const { existsSync, readFileSync } = /** @type {typeof import('node:fs')} */ (require('node:fs'));
  const { Script } = /** @type {typeof import('node:vm')} */ (require('node:vm'));
  const compiled = `${file}.${process.version}`;
  return new Script(readFileSync(file, 'latin1'), {
    filename: file,
    ...(existsSync(compiled) ? { cachedData: readFileSync(compiled) } : {}),
  });
}

/**
 * Runs a server through start, one request and stop, and keeps the code that V8 compiled for it.
 *
 * @param {string} file
 * @param {string} loader of the modules that it shares
 */
async function compile(file, loader) {
  const folder = mkdtempSync(join(tmpdir(), 'latchkey-compile-'));
  try {
    const config = join(folder, 'latchkey.yaml');
    writeFileSync(config, 'listen: { port: 0 }\nadmin: { port: 0 }\nupstream: http://127.0.0.1:1\ndirectory: { file: users.yaml }\n');
    writeFileSync(join(folder, 'users.yaml'), 'customers: [{ id: C, name: C }]\nusers: []\n', { mode: 0o600 });
    const child = spawn(process.execPath, [SELF, 'keep', file, loader, 'serve', '--config', config], { stdio: ['ignore', 'pipe', 'inherit'] });
    const ended = once(child, 'exit');
    for await (const line of createInterface(child.stdout)) {
      if (!line.includes('"msg":"ready"')) continue;
      await fetch(`${JSON.parse(line).listen}/tokens/self`, { headers: { 'service-key': 'none' } });
      child.kill();
    }
    const [code] = await ended;
    if (code !== 0) throw new Error(`the program to compile ended with ${code}`);
  } finally {
    rmSync(folder, { recursive: true });
  }
} // prettier-ignore

/**
 * Runs the program and, at its end, saves the code that V8 compiled.
 *
 * @param {string} file
 * @param {string} loader of the modules that it shares
 * @param {string[]} args
 */
function keep(file, loader, args) {
  process.argv = [process.execPath, file, ...args];
  const module = /** @type {NodeJS.Module} */ ({ exports: {} });
  const require = createRequire(SELF);
  const script = scriptOf(file, require);
  script.runInThisContext()(require, module, module.exports, ...Object.values(GLOBALS));
  process.on('exit', () => {
    // V8 accepts cached code only under the flags it was compiled with. These restore the flags
    // from before the server changed them.
    setFlagsFromString('--allocation-site-pretenuring');
    setFlagsFromString('--heap-growing-percent=0');
    replace(`${file}.${process.version}`, script.createCachedData());
    const sharedFile = loader.replace('.shared.cjs', '.cjs');
    replace(`${sharedFile}.${process.version}`, require(loader).script.createCachedData());
  });
  void module.exports.run();
}

/**
 * Replaces a file atomically: another process may be reading it.
 *
 * @param {string} path
 * @param {string | Uint8Array} text
 */
function replace(path, text) {
  writeFileSync(`${path}.${process.pid}`, text);
  renameSync(`${path}.${process.pid}`, path);
}

const [step, ...args] = process.argv.slice(2);
if (process.argv[1] === SELF && step === 'keep') keep(args[0] ?? '', args[1] ?? '', args.slice(2));
else if (process.argv[1] === SELF) await make();
