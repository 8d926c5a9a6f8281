import type { ServerResponse } from 'node:http';
import type { Duplex } from 'node:stream';
import { setTimeout as sleep } from 'node:timers/promises';
import type { LoadedConfig } from '../../config/load.js';
import type { Log } from '../../observe/log.js';
import { limitConnections } from '../public/connections.js';
import { createPublicServer, listen, type PublicServer } from '../public/listener.js';
import { createRequestListener } from '../public/request.js';
import { createRuntime, type Runtime } from '../runtime.js';
import type { StoreRoom } from '../stores/store-room.js';
import { Streams } from '../public/streams.js';
import { TlsServer } from '../public/tls-server.js';
import { asksForWebSocket, createUpgradeListener } from '../public/upgrade.js';

const IDLE_SWEEP_MS = 50;
const RETIRE_SWEEP_MS = 200;
/** A request may still be judged when a reload replaces its rooms; by then it has come to its upstream. */
const JUDGED_MS = 5_000;

/** A process that serves the public port. */
export interface Worker {
  readonly url: string;
  /** Builds what another configuration needs. It takes over by `commit`. */
  prepare(next: LoadedConfig): { readonly commit: () => void; readonly abort: () => Promise<void> };
  /** Stops accepting, waits for what is in flight, writes last uses down. */
  drain(): Promise<void>;
}

/** Starts serving the public port in this process. */
export async function startWorker(loaded: LoadedConfig, room: StoreRoom, log: Log): Promise<Worker> {
  let runtime = createRuntime(loaded, room, log);
  let draining = false;
  let closed = false;
  const streams = new Streams(
    () => runtime.streamRecheck,
    (head, now) => runtime.recheck(head, now),
  );
  const serve = createRequestListener(() => runtime.house, streams);
  const { limits } = loaded.config;
  const server: PublicServer = createPublicServer(
    limits,
    loaded.certificate,
    (req, res: ServerResponse) => {
      if (draining) res.shouldKeepAlive = false;
      serve(req, res);
    },
    createUpgradeListener(
      () => runtime,
      streams,
      () => server,
    ),
  );
  limitConnections(server, limits.connections, log);
  const tunnels = trackTunnels(server);
  const { host, port } = loaded.config.listen;
  const url = await listen(server, host, port);
  const retire = (old: Runtime): Promise<void> =>
    whenUnused(old, () => closed)
      .then(() => old.close())
      .catch((error: unknown) => log.warn({ err: error }, 'what served before could not be closed'));
  const retiring = new Set<Promise<void>>();
  return {
    url,
    prepare: (next) => {
      const prepared = createRuntime(next, room, log);
      return {
        commit: () => {
          const ending = retire(runtime).finally(() => retiring.delete(ending));
          retiring.add(ending);
          runtime = prepared;
          if (server instanceof TlsServer && next.certificate !== null)
            server.useCertificate(next.certificate);
        },
        abort: () => prepared.close(),
      };
    },
    drain: async () => {
      draining = true;
      await closeServer(server, tunnels, limits.drain_timeout);
      closed = true;
      streams.close();
      await Promise.all([...retiring, runtime.close()]);
    },
  };
}

/** Requests that began before a reload end in the rooms they began in; those are closed behind the last one. */
async function whenUnused(old: Runtime, hurry: () => boolean): Promise<void> {
  const settled = Date.now() + JUDGED_MS;
  while (!hurry() && (Date.now() < settled || old.pending() > 0)) await sleep(RETIRE_SWEEP_MS);
}

/** Sockets that changed protocol: the server no longer counts them, so a drain has to end them itself. */
function trackTunnels(server: PublicServer): Set<Duplex> {
  const tunnels = new Set<Duplex>();
  server.prependListener('upgrade', (req, socket) => {
    // Any other protocol is ignored and its connection goes back to the server.
    if (!asksForWebSocket(req)) return;
    tunnels.add(socket);
    socket.once('close', () => tunnels.delete(socket));
  });
  return tunnels;
}

async function closeServer(
  server: PublicServer,
  tunnels: ReadonlySet<Duplex>,
  timeout: number,
): Promise<void> {
  const closed = new Promise<void>((resolve) => server.close(() => resolve()));
  // A connection that becomes idle after its last answer would otherwise stay until its keep-alive ends.
  const sweep = setInterval(() => server.closeIdleConnections(), IDLE_SWEEP_MS);
  const limit = setTimeout(() => server.closeAllConnections(), timeout);
  for (const socket of tunnels) socket.destroy();
  await closed;
  clearInterval(sweep);
  clearTimeout(limit);
}
