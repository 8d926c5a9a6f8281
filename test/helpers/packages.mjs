import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { copyFileSync, existsSync, mkdirSync, mkdtempSync, readFileSync, renameSync, rmSync } from 'node:fs';
import { join, resolve } from 'node:path';

const INSTALL_MS = 300_000;

/** Below `node_modules`, where compiler, linter, formatter and test runner do not look. */
const CACHE = resolve(import.meta.dirname, '../../node_modules/.cache');

/**
 * Installs the packages of a lock file if they are missing, without running install scripts.
 *
 * @param {string} folder has a package.json and its package-lock.json
 * @returns {string} the folder that they are installed in
 * @throws Error that says why they can't be installed
 */
export function needNpmPackages(folder) {
  const manifests = ['package.json', 'package-lock.json'].map((name) => join(folder, name));
  const digest = createHash('sha256');
  for (const file of manifests) digest.update(readFileSync(file));
  const home = join(CACHE, `latchkey-${digest.digest('hex').slice(0, 16)}`);
  if (existsSync(home)) return home;

  mkdirSync(CACHE, { recursive: true });
  // Another test may install the same packages concurrently: the first to finish moves its complete
  // folder into place.
  const made = mkdtempSync(`${home}-`);
  try {
    for (const name of ['package.json', 'package-lock.json']) copyFileSync(join(folder, name), join(made, name));
    // Not `npm ci`: it refuses a lock file without the optional packages of other platforms, and
    // some registries lack those.
    const args = ['install', '--ignore-scripts', '--no-audit', '--no-fund', '--prefix', made];
    const { status, stderr, error } = spawnSync('npm', args, { cwd: made, encoding: 'utf8', timeout: INSTALL_MS });
    if (status !== 0)
      throw new Error(`packages of the npm registry are needed (${join(folder, 'package.json')}); "npm install" says:\n${stderr || error?.message}`);
    move(made, home);
    return home;
  } finally {
    rmSync(made, { recursive: true, force: true });
  }
} // prettier-ignore

/**
 * @param {string} made
 * @param {string} home
 */
function move(made, home) {
  try {
    renameSync(made, home);
  } catch (error) {
    if (!existsSync(home)) throw error;
  }
}
