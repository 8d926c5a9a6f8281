import cluster from 'node:cluster';
import { loadConfigToServe } from '../config/load.js';
import { configFromPrimary } from '../server/processes/messages.js';

/** Serves with the configuration of a file, until a signal stops it. */
export async function serve(options: { readonly config: string }): Promise<void> {
  // A worker serves what its primary serves: the file may hold something broken by now.
  const loaded = cluster.isWorker ? await configFromPrimary() : loadConfigToServe(options.config);
  // What only a server uses takes long to load; a configuration with faults is reported first.
  const { startServer } = await import('./start-server.js');
  await startServer({ loaded });
}
