// Checks that the tests catch faults in the security rules: npm run planted-faults [-- NAME...]. Works
// in a copy of the repository.
import { execFileSync, spawnSync } from 'node:child_process';
import { cpSync, existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { FAULTS } from './faults.mjs';

const ROOT = resolve(import.meta.dirname, '../..');

/** Copies the tracked files as they are, and links the packages. */
function copyRepository() {
  const copy = mkdtempSync(join(tmpdir(), 'latchkey-planted-'));
  const files = execFileSync('git', ['ls-files', '-z'], { cwd: ROOT, encoding: 'utf8' }).split('\0');
  for (const file of files.filter((each) => each !== '' && existsSync(join(ROOT, each)))) cpSync(join(ROOT, file), join(copy, file), { recursive: true });
  execFileSync('cp', ['-al', join(ROOT, 'node_modules'), copy]);
  rmSync(join(copy, 'node_modules/.cache'), { recursive: true, force: true });
  return copy;
} // prettier-ignore

/**
 * Runs test files on a copy. Returns whether a test failed; a build that fails does not count.
 *
 * @param {string} copy
 * @param {string[]} tests
 */
function fails(copy, tests) {
  const build = spawnSync('node', ['node_modules/typescript/bin/tsc', '-p', 'tsconfig.build.json', '--noCheck'], { cwd: copy, encoding: 'utf8' });
  if (build.status !== 0) throw new Error(`the build failed: ${build.stdout}${build.stderr}`);
  execFileSync('node', ['scripts/build-program.mjs'], { cwd: copy });
  const files = tests.map((file) => `test/${file}`);
  const missing = files.find((file) => !existsSync(join(copy, file)));
  if (missing !== undefined) throw new Error(`there is no ${missing}`);
  const { status, stdout } = spawnSync('node', ['test/loader/run.mjs', ...files], { cwd: copy, encoding: 'utf8', maxBuffer: 2 ** 28 });
  return status !== 0 && /^# \{ total: \d+.*fail: \d+/m.test(stdout);
} // prettier-ignore

const names = process.argv.slice(2);
const copy = copyRepository();
execFileSync('npm', ['run', '--silent', 'build'], { cwd: copy, stdio: 'inherit' });
let missed = 0;
try {
  for (const { name, file, find, replace, tests } of FAULTS) {
    if (names.length > 0 && !names.some((part) => name.includes(part))) continue;
    const path = join(copy, 'src', file);
    const source = readFileSync(path, 'utf8');
    let outcome;
    if (source.split(find).length !== 2) outcome = `not planted: src/${file} does not contain its line once`;
    else {
      writeFileSync(
        path,
        source.replace(find, () => replace),
      );
      try {
        outcome = fails(copy, tests) ? 'caught' : `not caught by ${tests.join(', ')}`;
      } catch (error) {
        outcome = `not planted: ${/** @type {Error} */ (error).message}`;
      }
      writeFileSync(path, source);
    }
    if (outcome !== 'caught') missed += 1;
    process.stdout.write(`${outcome === 'caught' ? 'ok' : 'not ok'} - ${name}: ${outcome}\n`);
  }
} finally {
  rmSync(copy, { recursive: true, force: true });
}
if (missed > 0) process.exitCode = 1;
