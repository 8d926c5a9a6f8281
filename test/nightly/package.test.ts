// Installs the package as a user does, with the packages that it declares.
import { execFile } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import t from 'tap';
import { temporaryFolder } from '../helpers/latchkey.js';

const shell = promisify(execFile);
const { version } = JSON.parse(readFileSync('package.json', 'utf8')) as { version: string };

t.test('the package installs and runs', async (t) => {
  const folder = temporaryFolder(t);
  await shell('npm', ['pack', '--ignore-scripts', '--pack-destination', folder]);
  const file = join(folder, `latchkey-${version}.tgz`);
  const options = ['--prefer-offline', '--no-audit', '--no-fund', '--ignore-scripts'];
  await shell('npm', ['install', '--prefix', folder, ...options, file]);
  const command = join(folder, 'node_modules/.bin/latchkey');
  t.equal((await shell(command, ['--version'])).stdout, `${version}\n`);
  t.match((await shell(command, ['schema'])).stdout, /"upstreams"/);
});
