import { connect, type ConnectionOptions } from 'node:tls';
import { errors } from 'undici';
import type { Connect } from './connection.js';

/**
 * Makes the way to connections of TLS that offer HTTP/2 and nothing else. undici's own offers HTTP/1.1 as well, and first,
 * which servers of both may choose.
 *
 * @param timeout milliseconds for the connection, TLS included
 */
export function http2TlsConnect(options: ConnectionOptions, timeout: number): Connect {
  let resumed: Buffer | undefined;
  return (callback) => {
    const socket = connect({
      ...options,
      ALPNProtocols: ['h2'],
      rejectUnauthorized: true,
      ...(resumed === undefined ? {} : { session: resumed }),
    });
    const finish = (error?: Error): void => {
      clearTimeout(timer);
      socket
        .off('secureConnect', finish)
        .off('error', finish)
        .on('error', () => undefined);
      if (error !== undefined) socket.destroy();
      callback(error ?? socket);
    };
    const timer = setTimeout(() => finish(new errors.ConnectTimeoutError()), timeout);
    socket.setKeepAlive(true, KEEP_ALIVE_MS).setNoDelay(true);
    socket.on('session', (session) => (resumed = session));
    socket.once('secureConnect', finish).once('error', finish);
  };
}

/** As of the connections of HTTP/1.1 (undici). */
const KEEP_ALIVE_MS = 60_000;
