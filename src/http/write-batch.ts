import type { Socket } from 'node:net';

/** So many sockets are written to at once at most: the first of them waits until the requests of the others were read. */
const MAX_BATCH = 32;

/** Sockets that are corked until the end of this turn of the event loop. */
const corked: Socket[] = [];
let batch = 0;

/**
 * Holds back what is written to a socket until the events of this turn of the event loop were handled, and then sends it in
 * one piece, together with what was written to other sockets.
 *
 * A write to a sleeping process wakes it, and that is most of what a small request costs; writes in a row wake it once.
 *
 * @returns the number of the batch, for {@link isHeldBack}
 */
export function batchWrites(socket: Socket): number {
  if (socket.writableCorked > 0) return batch;
  socket.cork();
  const size = corked.push(socket);
  if (size === 1) setImmediate(flush);
  else if (size === MAX_BATCH) flush();
  return batch;
}

/** Whether nothing of what a socket was given in a batch was sent yet. */
export function isHeldBack(socket: Socket, inBatch: number): boolean {
  return inBatch === batch && socket.writableCorked > 0;
}

/** Sends what is held back for a socket, before it gets another owner or is destroyed. */
export function flushWrites(socket: Socket): void {
  while (socket.writableCorked > 0) socket.uncork();
}

function flush(): void {
  batch += 1;
  for (const socket of corked) socket.uncork();
  corked.length = 0;
}
