import { createLogThrottle } from '../util/time.js';
import { readFileSync } from 'node:fs';
import type { Socket } from 'node:net';
import type { Log } from '../observe/log.js';
import { metrics } from '../observe/metrics.js';
import type { PublicServer } from './server.js';

/** File descriptors reserved for the store, the log, the admin port and the process itself. */
const RESERVED_FILES = 64;
const INTERVAL_MS = 1_000;
const WORTH_TELLING = 0.9;

/**
 * At the limit, it closes connections that wait for their next request, and then new ones at once.
 * @param limit connections per process
 */
export function limitConnections(servers: readonly PublicServer[], limit: number, log: Log): void {
  const allowed = Math.max(1, Math.min(limit, allowedByFiles()));
  // A slightly lower limit is not worth a log line at every start.
  if (allowed < WORTH_TELLING * limit) {
    log.info(
      { limit: allowed, configured: limit },
      'limits.connections reduced; open file limit too low (ulimit -n)',
    );
  }
  const open = new Set<Socket>();
  let madeRoomAt = -Infinity;
  const throttle = createLogThrottle();

  const makeRoom = (): void => {
    const now = performance.now();
    if (now - madeRoomAt >= INTERVAL_MS) {
      madeRoomAt = now;
      for (const server of servers) server.closeIdleConnections();
      for (const socket of open) if (socket.destroyed) open.delete(socket);
    }
    if (open.size >= allowed && throttle() !== undefined) {
      log.warn({ limit: allowed }, 'limits.connections reached; new connections closed');
    }
  };

  const onConnection = (socket: Socket): void => {
    if (open.size >= allowed) makeRoom();
    if (open.size >= allowed) {
      metrics.refusedConnections.inc();
      socket.destroy();
      return;
    }
    open.add(socket);
    metrics.openConnections.set(open.size);
    socket.once('close', () => {
      open.delete(socket);
      metrics.openConnections.set(open.size);
    });
  };
  // Runs before the server's own listener, which would start to read.
  for (const server of servers) server.prependListener('connection', onConnection);
}

/** Each client may need a second file, for its upstream. Node raises its soft limit by itself. */
function allowedByFiles(): number {
  try {
    const [, files] = /^Max open files\s+(\d+)/m.exec(readFileSync('/proc/self/limits', 'utf8')) ?? [];
    return files === undefined ? Infinity : Math.floor((Number(files) - RESERVED_FILES) / 2);
  } catch {
    // Only Linux has this file.
    return Infinity;
  }
}
