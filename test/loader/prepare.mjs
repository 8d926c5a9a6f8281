// Makes ready what every test file loads: tap's classes without the plugins that .taprc leaves out, and the bundles; with
// "program", also the program that tests start. Without it, tap and the test files do so themselves, each for itself.
import { spawnSync } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join, resolve } from 'node:path';
import { bundleAll } from './bundle.mjs';
import { programOf } from './program.mjs';

const root = resolve(import.meta.dirname, '../..');
const tapClasses = join(root, 'node_modules/@tapjs/test/test-built/dist/esm/index.js');
const tap = createRequire(import.meta.url)
  .resolve('tap/package.json')
  .replace('package.json', 'dist/esm/run.mjs');

const leftOut = [...readFileSync(join(root, '.taprc'), 'utf8').matchAll(/'!(@tapjs\/[a-z-]+)'/g)].map(
  ([, name]) => name,
);
const classes = readFileSync(tapClasses, 'utf8');
if (leftOut.some((name) => classes.includes(`from "${name}"`))) {
  const { status } = spawnSync(process.execPath, [tap, 'build'], { cwd: root, stdio: 'inherit' });
  if (status !== 0) process.exit(1);
}

const files = readdirSync(join(root, 'test'), { recursive: true, encoding: 'utf8' });
await bundleAll(files.filter((file) => file.endsWith('.test.ts')).map((file) => join(root, 'test', file)));
if (process.argv.includes('program')) programOf();
