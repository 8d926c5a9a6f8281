import type { Socket } from 'node:net';

/**
 * Milliseconds of silence before TCP keep-alive probes, which find WebSockets with a dead peer. No
 * other timeout limits their silence.
 */
const TCP_KEEP_ALIVE_MS = 60_000;

/**
 * Milliseconds without data after which the other side closes too: a WebSocket exchanges close
 * frames first (RFC 6455 7.1.1).
 */
const LINGER_MS = 5_000;
/** Milliseconds between two checks whether data was delivered; a permit is held in the meantime. */
const CHECK_MS = 1_000;

/**
 * Forwards the bytes of both sides.
 *
 * @param idleTimeout milliseconds for a side to receive what is left after the other has ended
 */
export function openTunnel(client: Socket, upstream: Socket, idleTimeout: number): void {
  linkSockets(client, upstream, idleTimeout);
  for (const side of [client, upstream])
    side.setTimeout(0).setNoDelay(true).setKeepAlive(true, TCP_KEEP_ALIVE_MS);
  upstream.pipe(client).pipe(upstream);
}

/**
 * Connects the ends of both sides.
 *
 * A side that ends or breaks passes its end on, and one that ends receives what the other still
 * sends. A side that is destroyed before, as by a revocation, takes the other with it.
 *
 * @param idleTimeout milliseconds for a side that has yet to receive something
 */
function linkSockets(client: Socket, upstream: Socket, idleTimeout: number): void {
  let closing: NodeJS.Timeout | undefined;
  for (const [side, other] of [
    [client, upstream],
    [upstream, client],
  ] as const) {
    side.allowHalfOpen = true;
    side.once('end', () => (closing ??= closeWhenIdle(client, upstream, idleTimeout)));
    side.once('close', () => {
      // The other side still receives what this one sent; what it sends itself has no reader.
      if ((side.readableEnded && side.writableFinished) || side.errored !== null) other.end().resume();
      else other.destroy();
      if (other.destroyed) clearInterval(closing);
      else closing ??= closeWhenIdle(client, upstream, idleTimeout);
    });
    side.on('error', ignore);
  }
}

/** Closes both sides after no byte has been delivered to either of them for some time. */
function closeWhenIdle(client: Socket, upstream: Socket, idleTimeout: number): NodeJS.Timeout {
  let delivered = deliveredTo(client) + deliveredTo(upstream);
  let idle = 0;
  return setInterval(() => {
    const now = deliveredTo(client) + deliveredTo(upstream);
    idle = now === delivered ? idle + CHECK_MS : 0;
    delivered = now;
    const isBlocked = client.writableLength + upstream.writableLength > 0;
    if (idle < (isBlocked ? Math.max(idleTimeout, LINGER_MS) : LINGER_MS)) return;
    client.destroy();
    upstream.destroy();
  }, CHECK_MS);
}

function deliveredTo(socket: Socket): number {
  return socket.bytesWritten - socket.writableLength;
}

function ignore(): void {}
