// HAProxy with a map of keys.
import { spawnSync } from 'node:child_process';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { freePort } from '../../../test/helpers/free-port.mjs';
import { missingPackages, runs, startPinned, untilListening } from '../../lib/processes.mjs';

/** @type {import('../subjects.mjs').Peer} */
export const haproxy = {
  name: 'HAProxy, key map',
  checks: true,
  missing: () => missingPackages(() => runs('haproxy', '-v'), 'haproxy'),
  version: () => /version ([\d.]+)/.exec(spawnSync('haproxy', ['-v']).stdout.toString())?.[1] ?? 'unknown',
  start: async ({ folder, cores, upstreamPort, keysFile }) => {
    const port = await freePort();
    const own = join(folder, `haproxy-${port}`);
    mkdirSync(own);
    const map = join(own, 'keys.map');
    const keys = readFileSync(keysFile, 'utf8').split('\n').filter(Boolean);
    writeFileSync(map, keys.map((key, index) => `${key} user${index % 100}\n`).join(''));
    const file = join(own, 'haproxy.cfg');
    writeFileSync(
      file,
      `global
  nbthread 1
  maxconn 4096
defaults
  mode http
  timeout connect 5s
  timeout client 600s
  timeout server 600s
  timeout http-keep-alive 600s
frontend front
  bind 127.0.0.1:${port} backlog 4096
  http-request set-var(txn.user) req.hdr(Service-Key),map_str(${map})
  http-request deny deny_status 401 unless { var(txn.user) -m found }
  http-request set-header X-Auth-User-Id %[var(txn.user)]
  default_backend behind
backend behind
  http-reuse always
  server upstream 127.0.0.1:${upstreamPort} maxconn 256
`,
    );
    const started = startPinned({ program: 'haproxy', args: ['-f', file], cores, log: join(own, 'output.log') });
    await untilListening(started, port, 'HAProxy');
    return { port, pids: { proxy: started.pid }, stop: started.stop };
  },
}; // prettier-ignore
