import { spawnSync } from 'node:child_process';
import t from 'tap';

t.test('cases that the fuzzer found once are found no more', (t) => {
  const { status, stdout, stderr } = spawnSync(process.execPath, ['bench/fuzz/peers.mjs', '--replay'], {
    encoding: 'utf8',
    timeout: 120_000,
  });
  t.equal(status, 0, stdout + stderr);
  t.match(stdout, /^\d+ cases replayed$/m);
  t.end();
});
