import { mkdirSync, readFileSync, renameSync, statSync, writeFileSync } from 'node:fs';
import { dirname, join, relative, resolve } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';

/** @import { BuildOptions, Plugin } from 'esbuild' */

const ROOT = resolve(import.meta.dirname, '../..');
const CACHE = join(ROOT, 'node_modules/.cache/tests');
// Below such a folder tap leaves its own lines out of the stacks that it shows.
const TAP = join(CACHE, 'node_modules/@tapjs/tap.js');

/** Changes of these files outdate every bundle. */
const ALWAYS = [fileURLToPath(import.meta.url), 'package.json', 'package-lock.json', 'tsconfig.json'];

/** Packages of many small files, which load in a fraction of the time as part of a bundle. */
const BUNDLED = new Set(['ajv', 'fast-check', 'otpauth', 'yaml', 'zod']);

/**
 * The JavaScript of a test file with all that it imports, built anew when one of its sources changed.
 *
 * @param {string} file
 */
export async function bundleOf(file) {
  const kept = readBundle(file);
  if (kept !== undefined) return kept;
  await bundle([file]);
  return readFileSync(placeOf(file).bundle, 'utf8');
}

/**
 * Builds the bundles of test files that are not up to date.
 *
 * @param {string[]} files
 */
export async function bundleAll(files) {
  const outdated = files.filter((file) => readBundle(file) === undefined);
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
  // CommonJS packages that are bundled ask for the modules of Node by it.
  banner: { js: "globalThis.require ??= process.getBuiltinModule('node:module').createRequire(import.meta.url);" },
  logLevel: 'error',
}); // prettier-ignore

/** @param {string[]} files */
async function bundle(files) {
  const { build } = await import('esbuild');
  const { dependencies, devDependencies } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8'));
  const names = Object.keys({ ...dependencies, ...devDependencies });
  const { outputFiles, metafile } = await build({
    ...OPTIONS,
    entryPoints: files,
    outdir: ROOT,
    outbase: ROOT,
    external: names.filter((name) => !BUNDLED.has(name) && name !== 'tap'),
    plugins: [apart, built, tapInOneFile, ownPlace, unmapped],
    metafile: true,
    sourcemap: 'inline',
    sourcesContent: false,
  });
  const { outputFiles: tap } = await build({ ...OPTIONS, entryPoints: ['tap'], outfile: TAP });
  write(TAP, tap[0].text);
  for (const { path, text } of outputFiles) {
    const output = relative(ROOT, path);
    const { entryPoint = '', inputs } = metafile.outputs[output];
    const stamps = [...Object.keys(inputs), ...ALWAYS].map((source) => [source, stampOf(source)]);
    const kept = placeOf(resolve(ROOT, entryPoint));
    write(kept.bundle, text);
    write(kept.sources, JSON.stringify({ root: ROOT, stamps }));
  }
}

/**
 * Most tests load it, and few at their start; so it is a bundle of its own. It keeps no state.
 *
 * @type {Plugin}
 */
const apart = {
  name: 'apart',
  setup(build) {
    build.onResolve({ filter: /\/interface-check\.js$/ }, ({ kind, path, resolveDir }) =>
      kind === 'dynamic-import'
        ? { path: pathToFileURL(resolve(resolveDir, path.replace(/js$/, 'ts'))).href, external: true }
        : undefined,
    );
  },
};

/**
 * What a build makes is loaded when it is asked for: most tests need no build.
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
 * tap is 200 modules, which take longer to load than most tests take to run.
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
 * In a bundle, each module still finds files from its own place.
 *
 * @type {Plugin}
 */
const ownPlace = {
  name: 'own-place',
  setup(build) {
    build.onLoad({ filter: /\.m?ts$|[\\/]test[\\/].*\.mjs$/ }, ({ path }) => {
      const text = readFileSync(path, 'utf8');
      if (path.includes('/node_modules/')) return undefined;
      const contents = text
        .replaceAll('import.meta.dirname', JSON.stringify(dirname(path)))
        .replaceAll('import.meta.url', JSON.stringify(pathToFileURL(path).href));
      return { contents, loader: path.endsWith('ts') ? 'ts' : 'js' };
    });
  },
};

const NO_MAP = Buffer.from('{"version":3,"sources":[""],"mappings":"AAAA"}').toString('base64');

/**
 * Node reads the whole source map at the first error that a test makes; packages are most of it.
 *
 * @type {Plugin}
 */
const unmapped = {
  name: 'unmapped',
  setup(build) {
    build.onLoad({ filter: /[\\/]node_modules[\\/].*\.[cm]?js$/ }, ({ path }) => {
      const text = readFileSync(path, 'utf8').replaceAll('//# sourceMappingURL=', '// ');
      return { contents: `${text}\n//# sourceMappingURL=data:application/json;base64,${NO_MAP}` };
    });
  },
};

/** @param {string} file */
function readBundle(file) {
  try {
    const kept = placeOf(file);
    /** @type {{ root: string, stamps: [source: string, stamp: string][] }} */
    const { root, stamps } = JSON.parse(readFileSync(kept.sources, 'utf8'));
    if (root !== ROOT || stamps.some(([source, stamp]) => stampOf(source) !== stamp)) return undefined;
    return readFileSync(kept.bundle, 'utf8');
  } catch (error) {
    if (/** @type {NodeJS.ErrnoException} */ (error).code === 'ENOENT') return undefined;
    throw error;
  }
}

/** @param {string} file */
function placeOf(file) {
  const name = relative(ROOT, file).replaceAll(/[\\/]/g, '+');
  return { bundle: join(CACHE, `${name}.js`), sources: join(CACHE, `${name}.sources.json`) };
}

/** @param {string} source */
function stampOf(source) {
  const { mtimeMs, size } = statSync(resolve(ROOT, source));
  return `${mtimeMs} ${size}`;
}

/**
 * Replaces a file as a whole: another process may be reading it.
 *
 * @param {string} path
 * @param {string} text
 */
function write(path, text) {
  mkdirSync(dirname(path), { recursive: true });
  writeFileSync(`${path}.${process.pid}`, text);
  renameSync(`${path}.${process.pid}`, path);
}
