import { existsSync } from 'node:fs';
import type { Fault } from './fault.js';
import { checkIdentity } from './identity-checks.js';
import { checkPolicy } from './policy-checks.js';
import { checkRoutes } from './route-checks.js';
import type { Config } from './schema/config.js';
import type { Path } from './positions.js';
import { resolvePath, type Source } from './source.js';
import { checkUpstreams } from './upstream-checks.js';

/** What no single value shows: names that refer to others, values that contradict each other. */
export function crossCheck(config: Config, source: Source): Fault[] {
  const faults: Fault[] = [];
  const add = (path: Path, message: string) => faults.push(source.fault(path, message));
  if (config.sessions.idle_timeout > config.sessions.absolute_timeout) {
    add(['sessions', 'idle_timeout'], 'sessions.idle_timeout: is longer than sessions.absolute_timeout');
  }
  const { file } = config.directory;
  if (file !== null && !existsSync(resolvePath(source, file))) {
    add(['directory', 'file'], `directory.file: there is no file ${resolvePath(source, file)}`);
  }
  checkUpstreams(config, source, add);
  if (checkRoutes(config, add)) checkPolicy(config, source.lines, add);
  checkIdentity(config, add);
  return faults;
}

/** Notes a fault of a place. */
export type Add = (path: Path, message: string) => void;
