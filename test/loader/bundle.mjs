import { mkdirSync, readFileSync, renameSync, statSync, writeFileSync } from 'node:fs';
import { dirname, join, relative, resolve } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { unmapped } from '../../scripts/unmapped.mjs';

/** @import { BuildOptions, Plugin } from 'esbuild' */

const ROOT = resolve(import.meta.dirname, '../..');
const CACHE = join(ROOT, 'node_modules/.cache/tests');
// In a folder of this name, tap omits its own lines from the stacks it shows.
const TAP = join(CACHE, 'node_modules/@tapjs/tap.js');

const OWN_TAP = join(import.meta.dirname, 'tap.mjs');
const UNCAUGHT = join(import.meta.dirname, 'uncaught.mjs');

/** Changes to these files invalidate every bundle. */
const ALWAYS = [
  fileURLToPath(import.meta.url),
  OWN_TAP,
  UNCAUGHT,
  'scripts/unmapped.mjs',
  'package.json',
  'package-lock.json',
  'tsconfig.base.json',
];

/**
 * Most tests load this module, but few at startup, so it has a bundle of its own. It keeps no
 * state.
 */
const APART = 'test/helpers/interface-check.ts';

/** Packages with many small files, which load in a fraction of the time when bundled. */
const BUNDLED = new Set(['ajv', 'fast-check', 'otpauth', 'yaml', 'zod']);

/**
 * The work of one process: a test file, or several under a common name.
 *
 * @typedef {{ name: string, files: string[] }} Task files below test
 */

/** @param {string} name of a task */
export function bundlePath(name) {
  return join(CACHE, `${name.replaceAll(/[\\/]/g, '+')}.mjs`);
}

/**
 * Builds the outdated bundles of tasks. A bundle contains the JavaScript of everything that its
 * files import.
 *
 * @param {Task[]} tasks
 */
export async function bundleAll(tasks) {
  const all = [...tasks, { name: 'interface-check', files: [] }];
  const outdated = all.filter(({ name, files }) => !isUpToDate(name, files));
  if (outdated.length > 0) await bundle(outdated);
}

/** @satisfies {BuildOptions} */
const OPTIONS = /** @type {const} */ ({
  absWorkingDir: ROOT,
  write: false,
  bundle: true,
  format: 'esm',
  platform: 'node',
  target: 'node20',
  keepNames: true,
  // Bundled CommonJS packages use it to load Node's modules.
  banner: { js: "globalThis.require ??= process.getBuiltinModule('node:module').createRequire(import.meta.url);" },
  logLevel: 'error',
}); // prettier-ignore

/** @param {Task[]} tasks */
async function bundle(tasks) {
  const { build } = await import('esbuild');
  const { dependencies, devDependencies } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8'));
  const names = Object.keys({ ...dependencies, ...devDependencies });
  const { outputFiles, metafile } = await build({
    ...OPTIONS,
    entryPoints: tasks.map(({ name, files }) => ({ in: entryOf(name, files), out: bundlePath(name).slice(0, -4) })),
    outdir: CACHE,
    outExtension: { '.js': '.mjs' },
    external: names.filter((name) => !BUNDLED.has(name) && name !== 'tap'),
    plugins: [together(tasks), apart, built, tapInOneFile, ownPlace, unmapped],
    metafile: true,
    sourcemap: 'inline',
    sourcesContent: false,
  });
  const { outputFiles: tap } = await build({ ...OPTIONS, entryPoints: [OWN_TAP], outfile: TAP, alias: { 'async-hook-domain': UNCAUGHT } });
  write(TAP, tap[0].text);
  for (const { path, text } of outputFiles) {
    const { inputs } = metafile.outputs[relative(ROOT, path)];
    const sources = Object.keys(inputs).filter((source) => !source.startsWith('together:'));
    const stamps = [...sources, ...ALWAYS].map((source) => [source, stampOf(source)]);
    const { files } = tasks.find(({ name }) => bundlePath(name) === path) ?? {};
    write(path, text);
    write(`${path}.json`, JSON.stringify({ root: ROOT, files, stamps }));
  }
} // prettier-ignore

/**
 * @param {string} name
 * @param {string[]} files
 */
function entryOf(name, files) {
  if (files.length === 0) return APART;
  return files.length === 1 ? `test/${files[0]}` : `together:${name}`;
}

/**
 * Runs the files that share a process one after another, each as a test of its own.
 *
 * @param {Task[]} tasks
 * @returns {Plugin}
 */
const together = (tasks) => ({
  name: 'together',
  setup(build) {
    build.onResolve({ filter: /^together:/ }, ({ path }) => ({ path: path.slice(9), namespace: 'together' }));
    build.onLoad({ filter: /.*/, namespace: 'together' }, ({ path }) => {
      const files = tasks.find(({ name }) => name === path)?.files ?? [];
      const calls = files.map((file) => `runFile('test/${file}', () => import('./test/${file}'));`);
      return { contents: `import { runFile } from 'tap';\n${calls.join('\n')}`, resolveDir: ROOT };
    });
  },
});

/** @type {Plugin} */
const apart = {
  name: 'apart',
  setup(build) {
    build.onResolve({ filter: /\/interface-check\.js$/ }, ({ kind }) =>
      kind === 'dynamic-import'
        ? { path: pathToFileURL(bundlePath('interface-check')).href, external: true }
        : undefined,
    );
  },
};

/**
 * Loads files of the build on demand: most tests need no build.
 *
 * @type {Plugin}
 */
const built = {
  name: 'built',
  setup(build) {
    build.onResolve({ filter: /^(?:\.\.\/)+dist\// }, ({ path, resolveDir }) => ({
      path: pathToFileURL(resolve(resolveDir, path)).href,
      external: true,
    }));
  },
};

/**
 * Bundles tap: its 200 modules take longer to load than most tests take to run.
 *
 * @type {Plugin}
 */
const tapInOneFile = {
  name: 'tap-in-one-file',
  setup(build) {
    build.onResolve({ filter: /^tap$/ }, () => ({ path: pathToFileURL(TAP).href, external: true }));
  },
};

/**
 * Keeps each module's own path in a bundle, so that it still finds files next to it.
 *
 * @type {Plugin}
 */
const ownPlace = {
  name: 'own-place',
  setup(build) {
    build.onLoad({ filter: /\.m?ts$|[\\/]test[\\/].*\.mjs$|[\\/]bin[\\/].*\.js$/ }, ({ path }) => {
      const text = readFileSync(path, 'utf8');
      if (path.includes('/node_modules/')) return undefined;
      const contents = text
        .replaceAll('import.meta.dirname', JSON.stringify(dirname(path)))
        .replaceAll('import.meta.url', JSON.stringify(pathToFileURL(path).href));
      return { contents, loader: path.endsWith('ts') ? 'ts' : 'js' };
    });
  },
};

/**
 * @param {string} task
 * @param {string[]} files
 */
function isUpToDate(task, files) {
  try {
    /** @type {{ root: string, files: string[], stamps: [source: string, stamp: string][] }} */
    const kept = JSON.parse(readFileSync(`${bundlePath(task)}.json`, 'utf8'));
    return kept.root === ROOT && String(kept.files) === String(files) && kept.stamps.every(([source, stamp]) => stampOf(source) === stamp);
  } catch (error) {
    if (/** @type {NodeJS.ErrnoException} */ (error).code === 'ENOENT') return false;
    throw error;
  }
} // prettier-ignore

/** @param {string} source */
function stampOf(source) {
  const { mtimeMs, size } = statSync(resolve(ROOT, source));
  return `${mtimeMs} ${size}`;
}

/**
 * Replaces a file atomically: another process may be reading it.
 *
 * @param {string} path
 * @param {string} text
 */
function write(path, text) {
  mkdirSync(dirname(path), { recursive: true });
  writeFileSync(`${path}.${process.pid}`, text);
  renameSync(`${path}.${process.pid}`, path);
}
