import cluster from 'node:cluster';
import { Command } from 'commander';
import { loadConfigToServe } from '../../config/load.js';
import { configFromPrimary } from '../../server/processes/messages.js';
import { configOption } from '../terminal/options.js';

/** `latchkey serve`: serves until it is told to stop. */
export function serveCommand(): Command {
  return new Command('serve')
    .description('serve with a configuration, until SIGTERM')
    .addOption(configOption())
    .action(async (options: { config: string }) => {
      // A worker serves what its primary serves: the file may hold something broken by now.
      const loaded = cluster.isWorker ? await configFromPrimary() : loadConfigToServe(options.config);
      // Loaded when it is needed: what only a server uses would double the time that other commands take to start.
      const { startServer } = await import('./start-server.js');
      await startServer({ loaded });
    });
}
