// The upstream behind every proxy: nginx for immediate responses, Node for bodies that must be read
// first.
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { freePort } from '../../test/helpers/free-port.mjs';
import { startPinned, untilListening } from './processes.mjs';

/** The response to a small request: 100 bytes of JSON. */
const SMALL_ANSWER = JSON.stringify({ data: 'x'.repeat(89) });
/** Sizes of the upstream's files in bytes. */
export const SIZES = { '64k': 65_536, '10m': 10_485_760 };

/**
 * Returns the parts of an nginx configuration that keep its files in a folder and its connections
 * open.
 *
 * @param {string} folder
 * @param {{ modules?: string[] | undefined, http: string }} what
 */
function nginxFrame(folder, { modules = [], http }) {
  const places = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi'];
  return `${modules.map((file) => `load_module ${file};`).join('\n')}
${process.getuid?.() === 0 ? 'user root;' : ''}
worker_processes 1;
daemon off;
pid ${folder}/nginx.pid;
error_log stderr crit;
events { worker_connections 4096; }
http {
  access_log off;
  default_type application/json;
  keepalive_requests 1000000000;
  keepalive_timeout 600s;
  client_max_body_size 0;
${places.map((place) => `  ${place}_temp_path ${folder}/${place};`).join('\n')}
${http}
}
`;
}

/**
 * Starts nginx with a configuration in its own folder.
 *
 * @param {{ folder: string, name: string, cores: number[], port: number, modules?: string[] |
 *   undefined, http: string }} what
 */
export async function startNginx({ folder, name, cores, port, modules, http }) {
  const own = join(folder, name);
  mkdirSync(own);
  const file = join(own, 'nginx.conf');
  writeFileSync(file, nginxFrame(own, { modules, http }));
  const args = ['-p', own, '-c', file, '-e', 'stderr'];
  const started = startPinned({ program: 'nginx', args, cores, log: join(own, 'output.log') });
  await untilListening(started, port, name);
  return started;
}

/**
 * Starts the upstream. `/files/` serves large bodies, `/take` reads a request body to its end,
 * everything else is a small response.
 *
 * @returns its port
 * @param {string} folder
 * @param {number[]} cores
 */
export async function startUpstream(folder, cores) {
  const files = join(folder, 'files');
  mkdirSync(files);
  for (const [name, size] of Object.entries(SIZES)) writeFileSync(join(files, name), Buffer.alloc(size, 'x'));
  const sinkPort = await freePort();
  const args = [join(import.meta.dirname, 'sink.mjs'), String(sinkPort)];
  const sink = startPinned({ program: process.execPath, args, cores, log: join(folder, 'sink.log') });
  await untilListening(sink, sinkPort, 'the upstream for bodies');
  const port = await freePort();
  const http = `  sendfile on;
  upstream sink { server 127.0.0.1:${sinkPort}; keepalive 256; keepalive_requests 1000000000; }
  server {
    listen 127.0.0.1:${port} backlog=4096;
    location / { return 200 '${SMALL_ANSWER}'; }
    location /files/ { root ${folder}; }
    location /take {
      proxy_pass http://sink;
      proxy_http_version 1.1;
      proxy_set_header Connection "";
      proxy_request_buffering off;
    }
  }`;
  await startNginx({ folder, name: 'upstream', cores, port, http });
  return port;
}
