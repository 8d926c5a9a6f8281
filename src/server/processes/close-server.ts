import { setImmediate as nextTurn } from 'node:timers/promises';
import type { PublicServer } from '../../listeners/server.js';

const IDLE_SWEEP_MS = 50;
/**
 * How long idle connections stay open during a drain, milliseconds.
 *
 * A request already on its way still gets its response. The response tells the client to use
 * another connection next time (RFC 9112, section 9.6).
 */
const IDLE_GRACE_MS = 1_000;
/** How long connections that wait for the server are accepted before it closes, milliseconds. */
const ACCEPT_MS = 500;

/**
 * Closes a server, its idle connections after a moment, and the others after their requests.
 *
 * @param timeout milliseconds after which all connections are closed
 */
export async function closeServer(server: PublicServer, timeout: number): Promise<void> {
  const closed = new Promise<void>((resolve) => {
    server.close(() => resolve());
  });
  // Otherwise, a connection that becomes idle after its last response would stay until its
  // keep-alive timeout.
  let sweep: NodeJS.Timeout | undefined;
  // In a busy process, the timer may fire before received data is read. Such a connection is not
  // idle.
  const closeIdle = (): void => void setImmediate(() => server.closeIdleConnections());
  const grace = setTimeout(() => {
    closeIdle();
    sweep = setInterval(closeIdle, IDLE_SWEEP_MS);
  }, IDLE_GRACE_MS);
  const limit = setTimeout(() => server.closeAllConnections(), timeout);
  for (const socket of server.tunnels) socket.destroy();
  await closed;
  clearTimeout(grace);
  clearInterval(sweep);
  clearTimeout(limit);
}

/**
 * Waits until the server has accepted the connections that the system has already opened for it.
 *
 * The system resets those that wait when the server stops listening. In a busy process they are
 * many, because node accepts one in each turn of the event loop.
 */
export async function acceptWaiting(server: PublicServer): Promise<void> {
  const end = performance.now() + ACCEPT_MS;
  let hasAccepted = true;
  const accepted = (): void => void (hasAccepted = true);
  server.on('connection', accepted);
  while (hasAccepted && performance.now() < end) {
    hasAccepted = false;
    // The first turn may already have looked for connections.
    await nextTurn();
    await nextTurn();
  }
  server.off('connection', accepted);
}
