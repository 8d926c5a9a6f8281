import type { Socket } from 'node:net';

/**
 * Makes a socket read what it has received before a failed write destroys it: an upstream may respond to a
 * body that it has not read, and close the connection (RFC 9112 9.6).
 */
export function readBeforeDestroy(socket: Socket): void {
  const destroy = socket.destroy.bind(socket);
  let isDelayed = false;
  const destroyOnceRead = (error: Error, bytesRead: number): void => {
    if (socket.bytesRead === bytesRead) destroy(error);
    else afterReads(destroyOnceRead, error, socket.bytesRead);
  };
  socket.destroy = (error?: Error) => {
    if (error === undefined || !isOfWrite(error)) return destroy(error);
    if (!isDelayed) afterReads(destroyOnceRead, error, socket.bytesRead);
    isDelayed = true;
    return socket;
  };
}

/** Calls a function once the event loop has read from all sockets that have received something. */
function afterReads(call: (error: Error, bytesRead: number) => void, error: Error, bytesRead: number): void {
  // The first one may run before the loop looks for new data.
  setImmediate(() => setImmediate(call, error, bytesRead));
}

function isOfWrite(error: NodeJS.ErrnoException): boolean {
  return error.syscall === 'write';
}
