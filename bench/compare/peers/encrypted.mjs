// Subjects with TLS, and the cost of the same responses without a proxy.
import { certificateIn } from '../../lib/certificate.mjs';
import { caddyMatcher, headerMatcher, startCaddy } from './caddy.mjs';
import { latchkeyPeer } from './latchkey.mjs';
import { luaCheck, nginxLua, startProxy } from './nginx.mjs';
import { startServer } from './node.mjs';

/** @import { Peer } from '../subjects.mjs' */

/** @type {Peer} */
export const latchkeyTls = {
  ...latchkeyPeer('Latchkey, TLS'),
  start: (place) => {
    const listen = { host: '127.0.0.1', port: 0, tls: certificateIn(place.folder) };
    return latchkeyPeer('Latchkey, TLS', { config: { listen } }).start(place);
  },
};

/** @type {Peer} */
export const nginxTls = {
  ...nginxLua,
  name: 'nginx, Lua, TLS',
  start: async (place) => {
    const { cert, key } = certificateIn(place.folder);
    const site = luaCheck(place.keysFile);
    const server = `    ssl_certificate ${cert};\n    ssl_certificate_key ${key};`;
    const { port, pid, stop } = await startProxy(place, { ...site, listen: 'ssl http2', server });
    return { port, pids: { proxy: pid }, stop };
  },
};

/** @type {Peer} */
export const caddyTls = {
  ...caddyMatcher,
  name: 'Caddy, header matcher, TLS',
  start: async (place) => {
    const { cert, key } = certificateIn(place.folder);
    const site = `\ttls ${cert} ${key}\n${headerMatcher(place)}`;
    const { port, pid, stop } = await startCaddy({ ...place, name: 'caddy-tls', scheme: 'https' }, site);
    return { port, pids: { proxy: pid }, stop };
  },
};

/**
 * @param {string} name
 * @param {'tcp' | 'tls' | 'http2'} protocol
 * @returns {Peer}
 */
const hello = (name, protocol) => ({
  name,
  checks: false,
  version: () => undefined,
  start: async (place) => {
    const { cert, key } = certificateIn(place.folder);
    const { port, pid, stop } = await startServer('hello', place, [protocol, cert, key]);
    return { port, pids: { proxy: pid }, stop };
  },
});

export const bareTcp = hello('bare TCP server', 'tcp');
export const bareTls = hello('bare TLS server', 'tls');
export const bareHttp2 = hello('bare node:http2 server', 'http2');
