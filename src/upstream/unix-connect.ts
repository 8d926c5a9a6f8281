import { stat } from 'node:fs';
import { connect, type Socket } from 'node:net';
import { codeOf, UpstreamFault } from './faults.js';

/** Waits between two tries while the server's queue of new connections is full: each is twice as long as the one before. */
const FIRST_WAIT_MS = 5;
const LONGEST_WAIT_MS = 100;
/** As of the connections over TCP. */
const HIGH_WATER_MARK = 65_536;

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
