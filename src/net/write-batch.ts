import type { Socket } from 'node:net';

/** Maximum sockets in a batch: the first waits until the requests of the others are read. */
const MAX_BATCH = 32;

/** Sockets corked until the end of this turn of the event loop. */
const corked: Socket[] = [];

/**
 * Corks a socket until all events of this turn are handled, so that its writes are sent in one piece,
 * together with those of other sockets: waking a process is most of the cost of a small request.
 */
export function batchWrites(socket: Socket): void {
  if (socket.writableCorked > 0) return;
  socket.cork();
  const size = corked.push(socket);
  if (size === 1) setImmediate(flush);
  else if (size === MAX_BATCH) flush();
}

/** Size from which holding a chunk back saves nothing, and would only keep its memory in use. */
const LARGE = 16 * 1024;

/**
 * Flushes a socket after the write of a large chunk.
 * @param takesMore result of the write
 * @returns whether the socket takes more now; if not, `drain` follows
 */
export function flushLarge(socket: Socket, size: number, takesMore: boolean): boolean {
  if (size < LARGE) return takesMore;
  flushWrites(socket);
  // Mostly the system took all of it during the call, which the result of the write does not show.
  return socket.writableLength < socket.writableHighWaterMark;
}

export function flushWrites(socket: Socket): void {
  while (socket.writableCorked > 0) socket.uncork();
}

function flush(): void {
  for (const socket of corked) socket.uncork();
  corked.length = 0;
}
