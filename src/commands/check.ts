import { loadDirectory } from '../config/directory.js';
import { ConfigError, formatFault } from '../config/fault.js';
import { loadConfig } from '../config/load.js';

/** `latchkey check`: prints each fault of a configuration and its directory. Returns the exit code. */
export function check(options: { config: string }): number {
  try {
    const { file, config } = loadConfig(options.config);
    if (config.directory !== null && 'file' in config.directory) {
      loadDirectory(config.directory.file, process.env, Object.keys(config.policy.roles));
    }
    process.stdout.write(`${file}: ok\n`);
    return 0;
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    for (const fault of error.faults) process.stderr.write(`${formatFault(fault)}\n`);
    return 1;
  }
}
