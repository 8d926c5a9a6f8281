// nginx with a Lua check of the key, and with auth_request; HAProxy with a map of keys is in
// haproxy.mjs.
import { spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { freePort } from '../../../test/helpers/free-port.mjs';
import { missingPackages, runs } from '../../lib/processes.mjs';
import { startNginx } from '../../lib/upstream.mjs';
import { startServer } from './node.mjs';

/** @import { Peer, Place } from '../subjects.mjs' */
/**
 * @typedef {{ modules?: string[], before?: string, listen?: string, server?: string, location:
 *   string }} Site in and before its one server
 */

const MODULES = '/usr/lib/nginx/modules';
const LUA = [`${MODULES}/ndk_http_module.so`, `${MODULES}/ngx_http_lua_module.so`];
let count = 0;

/** @param {string} upstream */
const proxied = (upstream) => `proxy_pass http://${upstream};
      proxy_http_version 1.1;
      proxy_set_header Connection "";
      proxy_set_header Host $host;
      proxy_request_buffering off;
      proxy_max_temp_file_size 0;`;

/**
 * Starts nginx as a proxy.
 *
 * @param {Place} place
 * @param {Site} site
 */
export async function startProxy(
  { folder, cores, upstreamPort },
  { modules, before = '', listen = '', server, location },
) {
  const port = await freePort();
  const http = `  upstream behind { server 127.0.0.1:${upstreamPort}; keepalive 256; keepalive_requests 1000000000; }
${before}
  server {
    listen 127.0.0.1:${port} backlog=4096 ${listen};
${server ?? ''}
    location / {
      ${location}
      ${proxied('behind')}
    }
  }`;
  return { ...(await startNginx({ folder, name: `nginx-${count++}`, cores, port, modules, http })), port };
}

const version = () => /nginx\/([\d.]+)/.exec(spawnSync('nginx', ['-v']).stderr.toString())?.[1] ?? 'unknown';

/**
 * Checks the key with Lua.
 *
 * @param {string} keysFile
 * @returns {Site}
 */
export const luaCheck = (keysFile) => ({
  modules: LUA,
  before: `  lua_package_path "/usr/share/lua/5.1/?.lua;;";
  init_by_lua_block {
    keys = {}
    local turn = 0
    for key in io.lines("${keysFile}") do
      keys[key] = "user" .. turn % 100
      turn = turn + 1
    end
  }`,
  location: `access_by_lua_block {
        local user = keys[ngx.var.http_service_key]
        if user == nil then return ngx.exit(401) end
        ngx.req.set_header("X-Auth-User-Id", user)
      }`,
});

/** @type {Peer} */
export const nginxLua = {
  name: 'nginx, Lua',
  checks: true,
  missing: () =>
    missingPackages(
      () => runs('nginx', '-v') && LUA.every(existsSync),
      'nginx-light',
      'libnginx-mod-http-lua',
    ),
  version,
  start: async (place) => {
    const { port, pid, stop } = await startProxy(place, luaCheck(place.keysFile));
    return { port, pids: { proxy: pid }, stop };
  },
};

/**
 * Directives to consult a service at a port before nginx forwards.
 *
 * @param {number} askedPort
 * @param {string} path
 */
export const authRequest = (askedPort, path, more = '') => ({
  before: `  upstream asked { server 127.0.0.1:${askedPort}; keepalive 256; keepalive_requests 1000000000; }`,
  server: `    location = /asked {
      internal;
      proxy_pass http://asked${path};
      proxy_http_version 1.1;
      proxy_set_header Connection "";
      proxy_set_header Content-Length "";
      proxy_pass_request_body off;
      ${more}
    }`,
  location: `auth_request /asked;
      auth_request_set $user $upstream_http_x_auth_user_id;
      proxy_set_header X-Auth-User-Id $user;`,
});

/** @type {Peer} */
export const nginxAuthRequest = {
  name: 'nginx, auth_request',
  checks: true,
  missing: () => missingPackages(() => runs('nginx', '-v'), 'nginx-light'),
  version,
  start: async (place) => {
    const asked = await startServer('asked', place, [place.keysFile]);
    const { port, pid, stop } = await startProxy(place, authRequest(asked.port, '/'));
    return {
      port,
      pids: { proxy: pid, asked: asked.pid },
      stop: async () => {
        await stop();
        await asked.stop();
      },
    };
  },
};
