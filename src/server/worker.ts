import type { Server, ServerResponse } from 'node:http';
import type { Duplex } from 'node:stream';
import type { LoadedConfig } from '../config/load.js';
import type { Log } from '../observe/log.js';
import { createPublicServer, listen } from './listener.js';
import { createRequestListener } from './request.js';
import { createRuntime } from './runtime.js';
import type { StoreRoom } from './store-room.js';
import { asksForWebSocket, createUpgradeListener } from './upgrade.js';

/** What is in flight when a drain begins may take this long. */
export const DRAIN_MS = 30_000;
const IDLE_SWEEP_MS = 50;

/** A process that serves the public port. */
export interface Worker {
  readonly url: string;
  /** Stops accepting, waits for what is in flight, writes last uses down. */
  drain(): Promise<void>;
}

/** Starts serving the public port in this process. */
export async function startWorker(loaded: LoadedConfig, room: StoreRoom, log: Log): Promise<Worker> {
  const { config } = loaded;
  const runtime = createRuntime(loaded, room, log);
  const serve = createRequestListener(runtime.house);
  let draining = false;
  const server: Server = createPublicServer(
    (req, res: ServerResponse) => {
      if (draining) res.shouldKeepAlive = false;
      serve(req, res);
    },
    createUpgradeListener(runtime.house, runtime.upgrade, () => server),
  );
  const tunnels = trackTunnels(server);
  const url = await listen(server, config.listen.host, config.listen.port);
  return {
    url,
    drain: async () => {
      draining = true;
      await closeServer(server, tunnels);
      await runtime.close();
    },
  };
}

/** Sockets that changed protocol: the server no longer counts them, so a drain has to end them itself. */
function trackTunnels(server: Server): Set<Duplex> {
  const tunnels = new Set<Duplex>();
  server.prependListener('upgrade', (req, socket) => {
    // Any other protocol is ignored and its connection goes back to the server.
    if (!asksForWebSocket(req)) return;
    tunnels.add(socket);
    socket.once('close', () => tunnels.delete(socket));
  });
  return tunnels;
}

async function closeServer(server: Server, tunnels: ReadonlySet<Duplex>): Promise<void> {
  const closed = new Promise<void>((resolve) => server.close(() => resolve()));
  // A connection that becomes idle after its last answer would otherwise stay until its keep-alive ends.
  const sweep = setInterval(() => server.closeIdleConnections(), IDLE_SWEEP_MS);
  const limit = setTimeout(() => server.closeAllConnections(), DRAIN_MS);
  for (const socket of tunnels) socket.destroy();
  await closed;
  clearInterval(sweep);
  clearTimeout(limit);
}
