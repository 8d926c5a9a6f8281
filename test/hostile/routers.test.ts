import { spawnSync } from 'node:child_process';
import t from 'tap';
import { needPackages, runs } from '../helpers/debian.js';

t.test('the handler that serves a forwarded target is the one that its rule is about', (t) => {
  needPackages(
    () => runs('/usr/bin/python3', '-c', 'import aiohttp, flask') && runs('php', '-v'),
    'python3-flask',
    'python3-aiohttp',
    'php-cli',
  );
  const { status, stdout, stderr } = spawnSync(
    process.execPath,
    ['bench/fuzz/routers.mjs', '--count', '400', '--seed', '1'],
    { encoding: 'utf8', timeout: 120_000 },
  );
  t.equal(status, 0, stdout + stderr);
  t.match(stdout, /^400 targets \(seed \d+\), [1-3]\d\d forwarded, 10 routers$/m);
  t.end();
});
