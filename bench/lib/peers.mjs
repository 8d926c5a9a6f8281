// Installs the packages of bench/package.json.
import { spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { missingPackages, runs } from './processes.mjs';

const BENCH = join(import.meta.dirname, '..');

/**
 * Installs missing peers and load generators.
 * @throws Error that says what to do
 */
export function installPeers() {
  const missing =
    missingPackages(() => runs('wrk', '-v'), 'wrk') ??
    missingPackages(() => runs('nginx', '-v'), 'nginx-light');
  if (missing !== undefined) throw new Error(`the load and the upstream are missing: ${missing}`);
  if (existsSync(join(BENCH, 'node_modules'))) return;
  process.stderr.write('installing what Latchkey is compared with (npm ci in bench/)\n');
  const args = ['ci', '--prefix', BENCH, '--ignore-scripts', '--no-audit', '--no-fund'];
  if (spawnSync('npm', args, { stdio: 'inherit' }).status !== 0) throw new Error('npm ci in bench/ failed');
}
