// Prepares what test files load: tap's classes without the plugins that .taprc disables, the
// bundles, and the program that tests start. Run directly, it prepares everything without running a
// test.
import { spawnSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { bundleAll } from './bundle.mjs';
import { prepareProgram } from './program.mjs';
import { filesOf, tasksOf } from './tasks.mjs';

/** @import { Task } from './bundle.mjs' */

const ROOT = resolve(import.meta.dirname, '../..');

/**
 * @param {Task[]} tasks
 * @param {boolean} program whether some of them start the program
 */
export async function prepare(tasks, program) {
  buildTap();
  await bundleAll(tasks);
  // Without a build, the tests that start the program report it.
  if (program && existsSync(join(ROOT, 'dist/program'))) await prepareProgram();
}

/**
 * Builds tap's classes, which tap generates from its plugins; by default it includes all of them.
 */
function buildTap() {
  const config = readFileSync(join(ROOT, '.taprc'), 'utf8');
  const leftOut = [...config.matchAll(/'!(@tapjs\/[a-z-]+)'/g)].map(([, name]) => name);
  const classes = readFileSync(join(ROOT, 'node_modules/@tapjs/test/test-built/dist/esm/index.js'), 'utf8');
  if (!leftOut.some((name) => classes.includes(`from "${name}"`))) return;
  const manifest = createRequire(import.meta.url).resolve('tap/package.json');
  const tap = manifest.replace('package.json', 'dist/esm/run.mjs');
  const { status } = spawnSync(process.execPath, [tap, 'build'], { cwd: ROOT, stdio: 'inherit' });
  if (status !== 0) throw new Error('tap could not be built');
}

if (process.argv[1] === fileURLToPath(import.meta.url)) await prepare(tasksOf(filesOf([])), true);
