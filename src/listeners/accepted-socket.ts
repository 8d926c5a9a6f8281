import { type ConnectOpts, Socket, type SocketConstructorOpts } from 'node:net';
import type { SocketReader } from '../http/socket-reader.js';

/** The part of a socket that Node keeps for itself. */
interface Internals {
  _handle?: object | null;
}

/**
 * Makes an accepted socket use a reader.
 *
 * Node has the `onread` option for outgoing connections only. So a second socket takes over the
 * handle, constructed in the way in which `net.Server` constructs the first. The first socket
 * stays the server's record of the connection, and is destroyed with the second.
 *
 * @returns the socket to use; the accepted one if it has no handle to take over
 */
export function withReader(accepted: Socket, { onread }: SocketReader): Socket {
  const internals = accepted as unknown as Internals;
  const handle = internals._handle;
  if (handle === undefined || handle === null) return accepted;
  internals._handle = null;
  return new TakenOverSocket(accepted, { handle, onread, allowHalfOpen: accepted.allowHalfOpen });
}

class TakenOverSocket extends Socket {
  /** Not set while the constructor of `Socket` runs, which may already fail. */
  readonly accepted: Socket | undefined;

  constructor(accepted: Socket, options: SocketConstructorOpts & ConnectOpts & { handle: object }) {
    super(options);
    this.accepted = accepted;
    if (this.destroyed) accepted.destroy();
  }

  override _destroy(error: Error | null, callback: (error?: Error | null) => void): void {
    this.accepted?.destroy();
    super._destroy(error, callback);
  }
}
