import cluster from 'node:cluster';
import { loadConfigToServe } from '../config/load.js';
import { configFromPrimary } from '../server/processes/messages.js';

export async function serve(options: { readonly config: string }): Promise<void> {
  // A worker serves the configuration of its primary: the file may have become invalid since.
  const loaded = cluster.isWorker ? await configFromPrimary() : loadConfigToServe(options.config);
  // Modules that only a server uses are slow to load; configuration faults are reported first.
  const { startServer } = await import('../server/compose.js');
  await startServer({ loaded });
}
