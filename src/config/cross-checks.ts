import { existsSync } from 'node:fs';
import type { Fault } from './fault.js';
import { checkIdentity } from './identity-checks.js';
import { suggestion } from './nearest.js';
import { checkPolicy } from './policy-checks.js';
import { checkRoutes } from './route-checks.js';
import type { Config } from './schema/config.js';
import type { Path } from './positions.js';
import { resolvePath, type Source } from './source.js';
import { UNAVAILABLE } from './unavailable.js';

/** What no single value shows: names that refer to others, values that contradict each other. */
export function crossCheck(config: Config, source: Source): Fault[] {
  const faults: Fault[] = [];
  const add = (path: Path, message: string) => faults.push(source.fault(path, message));
  for (const { path, isSet } of UNAVAILABLE) {
    if (isSet(config)) add(path, notAvailable(path.join('.')));
  }
  if (config.sessions.idle_timeout > config.sessions.absolute_timeout) {
    add(['sessions', 'idle_timeout'], 'sessions.idle_timeout: is longer than sessions.absolute_timeout');
  }
  const { file } = config.directory;
  if (file !== null && !existsSync(resolvePath(source, file))) {
    add(['directory', 'file'], `directory.file: there is no file ${resolvePath(source, file)}`);
  }
  checkUpstreams(config, add);
  if (checkRoutes(config, add)) checkPolicy(config, source.lines, add);
  checkIdentity(config, add);
  return faults;
}

function notAvailable(setting: string): string {
  return `${setting}: this setting is not available in this version`;
}

/** Notes a fault of a place. */
export type Add = (path: Path, message: string) => void;

function checkUpstreams(config: Config, add: Add): void {
  const names = Object.keys(config.upstreams);
  for (const [name, { health_check: health }] of Object.entries(config.upstreams)) {
    if (health != null)
      add(['upstreams', name, 'health_check'], notAvailable(`upstreams.${name}.health_check`));
  }
  if (names.length === 0) {
    add([], 'no upstream is set; the smallest configuration is "upstream: http://127.0.0.1:3000"');
    return;
  }
  const check = (path: Path, name: string | null | undefined) => {
    if (name == null || names.includes(name)) return;
    add(path, `${path.map(String).join('.')}: no upstream is named "${name}"${suggestion(name, names)}`);
  };
  if (config.default_route.upstream === null && names.length > 1) {
    add(['default_route'], `default_route.upstream: say which of ${names.join(', ')} it is`);
  }
  check(['default_route', 'upstream'], config.default_route.upstream);
  config.routes.forEach((route, i) => check(['routes', i, 'upstream'], route.upstream));
}
