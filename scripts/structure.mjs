// Checks the layers of src (.dependency-cruiser.mjs) and finds unused files, exports and packages
// (knip.jsonc). Both tools are installed on first use: nothing else needs them and the older compiler
// that they read types with, 60 MB together.
import { spawnSync } from 'node:child_process';
import { join, resolve } from 'node:path';
import { needNpmPackages } from '../test/helpers/packages.mjs';

const modules = join(needNpmPackages(resolve(import.meta.dirname, 'structure')), 'node_modules');
const COMMANDS = [
  ['dependency-cruiser/bin/dependency-cruise.mjs', '--config', '.dependency-cruiser.mjs', 'src', 'bench', 'scripts'],
  ['knip/bin/knip.js'],
]; // prettier-ignore

for (const [program = '', ...args] of COMMANDS) {
  const { status } = spawnSync(process.execPath, [join(modules, program), ...args], { stdio: 'inherit' });
  if (status !== 0) process.exit(status ?? 1);
}
