import { spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, renameSync, rmSync } from 'node:fs';
import { join, resolve } from 'node:path';

const INSTALL_MS = 300_000;
const CACHE = resolve(import.meta.dirname, '../../node_modules/.cache');

/**
 * Installs another version of Node from the npm registry if it is missing.
 *
 * @param {string} version as npm takes it, like `26` or `22.12.0`
 * @returns {string} the folder of its `node`
 * @throws Error that says why it can't be installed
 */
export function needNode(version) {
  if (!/^\d+(?:\.\d+){0,2}$/.test(version)) throw new Error(`${version} is no version of Node; write one like 26`);
  const name = `node-${process.platform}-${process.arch}`;
  const home = join(CACHE, `latchkey-node-${version}`);
  const bin = join(home, 'node_modules', name, 'bin');
  if (existsSync(bin)) return bin;

  mkdirSync(CACHE, { recursive: true });
  // Another test may install the same version concurrently: the first to finish moves its complete
  // folder into place.
  const made = mkdtempSync(`${home}-`);
  try {
    const args = ['install', '--no-save', '--ignore-scripts', '--no-audit', '--no-fund', '--prefix', made];
    /** @type {import('node:child_process').SpawnSyncOptionsWithStringEncoding} */
    const options = { cwd: made, encoding: 'utf8', timeout: INSTALL_MS };
    const { status, stderr, error } = spawnSync('npm', [...args, `${name}@${version}`], options);
    if (status !== 0) throw new Error(`Node ${version} cannot be installed; "npm install ${name}@${version}" says:\n${stderr || error?.message}`);
    try {
      renameSync(made, home);
    } catch (error) {
      if (!existsSync(bin)) throw error;
    }
    return bin;
  } finally {
    rmSync(made, { recursive: true, force: true });
  }
} // prettier-ignore
