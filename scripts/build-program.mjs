// Builds dist/program from the modules in dist: what the package and the image contain and what
// bin/latchkey.js starts. The program is one file and its schemas another; each package that it needs
// only for some configurations is one more, loaded on use.
import { createHash } from 'node:crypto';
import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { basename, join, relative, resolve } from 'node:path';
import { build } from 'esbuild';
import { DIGEST_LENGTH, PARAMETERS } from '../bin/program.js';
import { unmapped } from './unmapped.mjs';

/** @import { BuildOptions, Plugin } from 'esbuild' */

const ROOT = resolve(import.meta.dirname, '..');
const DIST = join(ROOT, 'dist');
const OUT = join(DIST, 'program');
/** Packages with binaries, which load these from their own folders: the only ones to install. */
const NATIVE = Object.keys(JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8')).dependencies);
/** What only some configurations and commands need. */
const RARE = [
  '@grpc/grpc-js',
  '@opentelemetry/api',
  '@opentelemetry/otlp-transformer',
  '@opentelemetry/resources',
  '@opentelemetry/sdk-trace-base',
  'ioredis',
  'jose',
  'openid-client',
  'pg',
  'protobufjs/light.js',
  'standardwebhooks',
  'undici',
];
/** Processes and threads that the program starts. */
const CHILDREN = ['server/processes/hashing-child.js', 'server/reload/read-directory.js'];

const ZOD = join(ROOT, 'node_modules/zod/index.js');
/** Modules without state that take half of a start: programs in one process can share them. */
const SCHEMAS = ['config/schema/config.js', 'config/schema/directory-file.js', 'endpoints/schema/requests.js', 'endpoints/schema/responses.js']; // prettier-ignore

/** @param {string} name of a package or of a module of it */
const fileOf = (name) => name.replace('@', '').replaceAll('/', '-').replace(/\.js$/, '');

/** @type {Plugin} */
const rareApart = {
  name: 'rare-apart',
  setup(build) {
    build.onResolve({ filter: /^[@\w]/ }, ({ path, kind, importer }) => {
      if (kind === 'entry-point' || !RARE.includes(path)) return undefined;
      // Only for exemplars, which are off.
      if (importer.includes('prom-client')) return { path, namespace: 'unused' };
      return { path: `./${fileOf(path)}.cjs`, external: true };
    });
    build.onLoad({ filter: /.*/, namespace: 'unused' }, () => ({ contents: '' }));
  },
};

/**
 * Keeps each module's place in dist, from which it finds other files of the package, and finds the
 * programs of children in dist/program.
 *
 * @type {Plugin}
 */
const asInDist = {
  name: 'as-in-dist',
  setup(build) {
    build.onLoad({ filter: /\.js$/ }, ({ path }) => {
      if (!path.startsWith(DIST)) return undefined;
      const contents = readFileSync(path, 'utf8')
        .replace(/(?<=new URL\('.\/[\w-]+\.)js', import\.meta\.url\)/, "mjs', PROGRAM_URL)")
        .replaceAll('import.meta.url', `new URL(${JSON.stringify(relative(OUT, path))}, PROGRAM_URL).href`);
      if (path !== join(DIST, 'cli.js')) return { contents };
      // The command uses await, which CommonJS does not allow at the top level.
      const lines = contents.split('\n');
      const body = lines.findIndex((line) => line.startsWith('const '));
      lines[body] = `export const run = async () => { ${lines[body]}`;
      lines.push(`}; ${lines.pop()}`);
      return { contents: lines.join('\n') };
    });
  },
};

/**
 * Takes the schemas from their own file.
 *
 * @param {string[]} paths
 * @returns {Plugin}
 */
const schemasApart = (paths) => ({
  name: 'schemas-apart',
  setup(build) {
    build.onResolve({ filter: /^\..*\.js$|^zod$/ }, ({ path, resolveDir }) => {
      const i = paths.indexOf(path === 'zod' ? ZOD : resolve(resolveDir, path));
      return i === -1 ? undefined : { path: `m${i}`, namespace: 'schemas' };
    });
    build.onLoad({ filter: /.*/, namespace: 'schemas' }, ({ path }) => ({
      contents: `module.exports = require('./schemas.cjs').${path};`,
    }));
    build.onResolve({ filter: /^\.\/schemas\.cjs$/ }, ({ path }) => ({ path, external: true }));
  },
});

/**
 * @param {string[]} paths
 * @returns {Plugin}
 */
const schemasOf = (paths) => ({
  name: 'schemas-of',
  setup(build) {
    build.onResolve({ filter: /^schemas$/ }, ({ path }) => ({ path, namespace: 'schemas' }));
    build.onLoad({ filter: /.*/, namespace: 'schemas' }, () => ({
      contents: paths.map((path, i) => `export * as m${i} from ${JSON.stringify(path)};`).join('\n'),
      resolveDir: ROOT,
    }));
  },
});

/** Lists Zod and the modules that make schemas with it. */
async function modulesOfSchemas() {
  const entryPoints = SCHEMAS.map((name) => join(DIST, name));
  const { metafile } = await build({ ...COMMON, entryPoints, metafile: true, format: 'esm' });
  const all = Object.keys(metafile.inputs).map((name) => resolve(ROOT, name));
  const own = all.filter(
    (path) => path.startsWith(DIST) && readFileSync(path, 'utf8').includes(" from 'zod'"),
  );
  return [ZOD, ...own];
}

/** @satisfies {BuildOptions} */
const COMMON = /** @type {const} */ ({
  absWorkingDir: ROOT,
  bundle: true,
  write: false,
  platform: 'node',
  target: 'node20',
  outdir: OUT,
  external: NATIVE,
  minifyWhitespace: true,
  sourcemap: 'linked',
  sourcesContent: false,
  legalComments: 'none',
  logLevel: 'error',
});

async function buildProgram() {
  const schemas = await modulesOfSchemas();
  const [program, shared, rare, children, verify] = await Promise.all([
    build({
      ...COMMON,
      entryPoints: { latchkey: join(DIST, 'cli.js') },
      format: 'cjs',
      outExtension: { '.js': '.cjs' },
      // A script with cached code cannot use import().
      supported: { 'dynamic-import': false },
      define: { PROGRAM_URL: 'programUrl' },
      plugins: [rareApart, schemasApart(schemas), asInDist, unmapped],
    }),
    build({
      ...COMMON,
      entryPoints: { schemas: 'schemas' },
      format: 'cjs',
      outExtension: { '.js': '.cjs' },
      sourcemap: false,
      define: { PROGRAM_URL: 'programUrl' },
      plugins: [schemasOf(schemas), asInDist],
    }),
    build({
      ...COMMON,
      entryPoints: RARE.map((name) => ({ in: name, out: fileOf(name) })),
      format: 'cjs',
      outExtension: { '.js': '.cjs' },
      sourcemap: false,
      plugins: [rareApart],
    }),
    build({
      ...COMMON,
      entryPoints: CHILDREN.map((file) => ({ in: join(DIST, file), out: basename(file, '.js') })),
      format: 'esm',
      outExtension: { '.js': '.mjs' },
      banner: {
        js: "import { createRequire } from 'node:module'; const require = createRequire(import.meta.url);",
      },
      define: { PROGRAM_URL: 'import.meta.url' },
      plugins: [rareApart, asInDist, unmapped],
    }),
    build({ ...COMMON, entryPoints: [join(DIST, 'verify/index.js')], format: 'esm', entryNames: 'verify' }),
  ]);
  rmSync(OUT, { recursive: true, force: true });
  mkdirSync(OUT, { recursive: true });
  for (const { path, text } of [...program.outputFiles, ...shared.outputFiles, ...rare.outputFiles])
    writeFileSync(path, path.endsWith('.cjs') ? asFunction(text) : text);
  for (const { path, contents } of [...children.outputFiles, ...verify.outputFiles]) writeFileSync(path, contents);
} // prettier-ignore

/**
 * Makes a module the function that bin/program.js calls. It ends with a digest, because V8 matches
 * compiled code to a text only by its length.
 *
 * @param {string} text
 */
function asFunction(text) {
  const digest = createHash('sha256').update(text).digest('hex').slice(0, DIGEST_LENGTH);
  return `(function (${PARAMETERS.join(', ')}) {${text.replace(/^#!.*/, '').replace(/\n\/\/# sourceMappingURL=.*\n$/, '')}\n})\n//${digest}`;
}

await buildProgram();
