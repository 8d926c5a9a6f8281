import { spawnSync } from 'node:child_process';
import t from 'tap';

t.test('earlier findings of the peer fuzzer stay fixed', (t) => {
  const { status, stdout, stderr } = spawnSync(process.execPath, ['bench/fuzz/peers.mjs', '--replay'], {
    encoding: 'utf8',
    timeout: 120_000,
  });
  t.equal(status, 0, stdout + stderr);
  t.match(stdout, /^\d+ cases replayed$/m);
  t.end();
});
