import { connect, connect as connectTcp, type Socket } from 'node:net';
import { type ConnectionOptions, connect as connectTls } from 'node:tls';
import type { Connect } from './connection.js';
import { codeOf, UpstreamFault } from './faults.js';
import { stat } from 'node:fs';

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

/** Waits between two tries while the server's queue of new connections is full: each is twice as long as the one before. */
const FIRST_WAIT_MS = 5;
const LONGEST_WAIT_MS = 100;

/** What the codes of the system mean for a socket. */
const MEANINGS: Readonly<Record<string, string>> = {
  ENOENT: 'the socket does not exist; the upstream creates it when it starts',
  ENOTDIR: 'a part of the path is not a folder',
  EACCES: 'this user needs write permission for the socket and search permission (x) for its folders',
  ECONNREFUSED: 'no server listens on the socket',
  ENOTSOCK: 'the file is not a socket',
  EPROTOTYPE: 'the socket is not a stream socket',
};

/** @param opened a connection, or why there is none */
type Opened = (opened: Socket | Error) => void;

/**
 * Connects to a Unix socket. While the server's queue is full the system refuses at once (EAGAIN), where TCP would wait; so it
 * is tried again until the timeout.
 *
 * @param timeout milliseconds
 * @param callback not called before this returns
 */
export function connectUnix(path: string, timeout: number, callback: Opened): void {
  const until = performance.now() + timeout;
  const options = { path, highWaterMark: HIGH_WATER_MARK };
  const attempt = (waitMs: number): void => {
    const socket = connect(options);
    const onError = (error: Error): void => {
      if (codeOf(error) !== 'EAGAIN') explain(error, path, callback);
      else if (performance.now() < until) setTimeout(attempt, waitMs, Math.min(waitMs * 2, LONGEST_WAIT_MS));
      else
        callback(
          new UpstreamFault('UND_ERR_CONNECT_TIMEOUT', `the queue of ${path} was full for ${timeout} ms`),
        );
    };
    socket.once('error', onError).once('connect', () => {
      socket.off('error', onError).on('error', () => undefined);
      callback(socket);
    });
  };
  attempt(FIRST_WAIT_MS);
}

/** Passes an error on with what its code means here. */
function explain(error: Error, path: string, callback: Opened): void {
  const code = codeOf(error);
  const pass = (meaning: string | undefined): void =>
    callback(
      meaning === undefined ? error : Object.assign(new Error(`${error.message}: ${meaning}`), { code }),
    );
  if (code !== 'ECONNREFUSED') pass(MEANINGS[code]);
  // Linux gives this code for any other file too.
  else stat(path, (failed, file) => pass(MEANINGS[failed !== null || file.isSocket() ? code : 'ENOTSOCK']));
}
