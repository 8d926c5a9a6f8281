import { spawn } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { needPackages, runs } from './debian.js';
import { accepts } from './raw-client.mjs';
import { temporaryFolder } from './latchkey.js';
import { freePort } from './free-port.mjs';
import { until } from './until.js';

/**
 * Starts nghttpx, a server that accepts HTTP/1.1, HTTP/2 and `Upgrade: h2c` on one port without
 * TLS.
 *
 * @param backend where it sends requests
 * @returns its base URL
 */
export async function startNghttpx(
  t: { teardown: (fn: () => void | Promise<void>) => void },
  backend: string,
): Promise<string> {
  needPackages(() => runs('nghttpx', '--version'), 'nghttp2-proxy');
  const port = await freePort();
  // The system-wide configuration may have been changed.
  const conf = join(temporaryFolder(t), 'nghttpx.conf');
  writeFileSync(conf, '');
  const child = spawn(
    'nghttpx',
    [
      `--conf=${conf}`,
      `--frontend=127.0.0.1,${port};no-tls`,
      `--backend=127.0.0.1,${new URL(backend).port}`,
      '--single-process',
    ],
    { stdio: 'ignore' },
  );
  const gone = new Promise((done) => child.once('close', done));
  t.teardown(async () => {
    child.kill('SIGTERM');
    await gone;
  });
  await until(() => accepts(port), 'nghttpx accepts connections', 30_000);
  return `http://127.0.0.1:${port}`;
}
