import { type ConnectOpts, Socket, type SocketConstructorOpts } from 'node:net';
import type { SocketReader } from '../http/socket-reader.js';

/** What Node keeps of a socket for itself. */
interface Internals {
  _handle?: object | null;
}

/**
 * Makes an accepted socket use a reader.
 *
 * Node has the `onread` option for outgoing connections only. So a second socket takes over the handle, in the
 * way in which `net.Server` makes the first one. The first one stays as the server's record of the
 * connection, and closes with the second.
 *
 * @returns the socket to use; the accepted one if it has no handle to take
 */
export function withReader(accepted: Socket, { onread }: SocketReader): Socket {
  const internals = accepted as unknown as Internals;
  const handle = internals._handle;
  if (handle === undefined || handle === null) return accepted;
  internals._handle = null;
  const { allowHalfOpen } = accepted;
  const options: SocketConstructorOpts & ConnectOpts & { handle: object } = { handle, onread, allowHalfOpen };
  const socket = new Socket(options);
  socket.once('close', () => accepted.destroy());
  return socket;
}
