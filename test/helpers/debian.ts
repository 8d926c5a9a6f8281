import { spawnSync } from 'node:child_process';

/**
 * Makes sure that a program is present; installs its Debian packages if that is allowed.
 *
 * @throws Error that says what to install
 */
export function needPackages(isThere: () => boolean, ...packages: string[]): void {
  if (isThere()) return;
  if (process.getuid?.() === 0) {
    spawnSync('apt-get', ['install', '-y', '-qq', '--no-install-recommends', ...packages]);
    if (isThere()) return;
  }
  throw new Error(`these tests need ${packages.join(' and ')}: apt-get install ${packages.join(' ')}`);
}

/** Returns whether a program can be run. */
export function runs(program: string, ...args: string[]): boolean {
  return spawnSync(program, args).status === 0;
}
