import { connect as connectTcp, type Socket } from 'node:net';
import { connect as connectTls, type ConnectionOptions } from 'node:tls';
import type { Connect } from './connection.js';
import { UpstreamFault } from './faults.js';

const KEEP_ALIVE_MS = 60_000;
const HIGH_WATER_MARK = 65_536;

/**
 * Makes the way to connections over TCP.
 *
 * @param timeout milliseconds
 */
export function tcpConnect(host: string, port: number, timeout: number): Connect {
  const options = { host, port, highWaterMark: HIGH_WATER_MARK };
  return (callback) => whenOpen(connectTcp(options), 'connect', timeout, callback);
}

/**
 * Makes the way to connections of TLS. Each resumes the session of an earlier one, if it can.
 *
 * @param protocol offered by ALPN, and no other
 * @param timeout milliseconds for the connection, TLS included
 */
export function tlsConnect(
  options: ConnectionOptions,
  protocol: 'http/1.1' | 'h2',
  timeout: number,
): Connect {
  let resumed: Buffer | undefined;
  return (callback) => {
    const socket = connectTls({
      ...options,
      ALPNProtocols: [protocol],
      rejectUnauthorized: true,
      ...(resumed === undefined ? {} : { session: resumed }),
    });
    socket.on('session', (session) => (resumed = session));
    whenOpen(socket, 'secureConnect', timeout, callback);
  };
}

function whenOpen(
  socket: Socket,
  event: 'connect' | 'secureConnect',
  timeout: number,
  callback: Parameters<Connect>[0],
): void {
  const finish = (error?: Error): void => {
    clearTimeout(timer);
    clearImmediate(late);
    socket
      .off(event, finish)
      .off('error', finish)
      .on('error', () => undefined);
    if (error !== undefined) socket.destroy();
    callback(error ?? socket);
  };
  const fault = `no connection within ${timeout} ms`;
  let late: NodeJS.Immediate | undefined;
  const expire = (): void => finish(new UpstreamFault('UND_ERR_CONNECT_TIMEOUT', fault));
  // A busy process may find the timer due before it reads that the connection is open.
  const timer = setTimeout(() => (late = setImmediate(expire)), timeout);
  socket.setKeepAlive(true, KEEP_ALIVE_MS).setNoDelay(true);
  socket.once(event, finish).once('error', finish);
}
