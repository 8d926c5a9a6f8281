// Subjects with TLS, and the cost of the same responses without a proxy.
import { certificateIn } from '../../lib/certificate.mjs';
import { caddyMatcher, headerMatcher, startCaddy } from './caddy.mjs';
import { latchkeyPeer } from './latchkey.mjs';
import { luaCheck, nginxLua, startProxy } from './nginx.mjs';
import { nodePeer } from './node.mjs';

/** @import { Peer, Place } from '../subjects.mjs' */

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
 * The arguments of a certificate's files.
 *
 * @param {Place} place
 */
function filesIn({ folder }) {
  const { cert, key } = certificateIn(folder);
  return [cert, key];
}

/**
 * @param {string} name
 * @param {'tcp' | 'tls' | 'http2'} protocol
 */
const hello = (name, protocol) => nodePeer(name, 'hello', { args: (place) => [protocol, ...filesIn(place)] });

/**
 * @param {string} name
 * @param {string} server
 */
const encryptedPipe = (name, server) =>
  nodePeer(name, server, { args: (place) => [place.upstreamPort, ...filesIn(place)] });

export const bareTcp = hello('bare TCP server', 'tcp');
export const bareTls = hello('bare TLS server', 'tls');
export const bareHttp2 = hello('bare node:http2 server', 'http2');
export const tlsPipe = encryptedPipe('bare TLS pipe', 'tcp-pipe');
export const http2Pipe = encryptedPipe('bare node:http2 pipe', 'http2-pipe');
