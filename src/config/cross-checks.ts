import { existsSync } from 'node:fs';
import { vendorNames } from './derived.js';
import type { Fault } from './fault.js';
import { checkPolicy } from './policy-checks.js';
import { checkRoutes } from './route-checks.js';
import type { Config } from './schema/config.js';
import type { Path } from './positions.js';
import { resolvePath, type Source } from './source.js';
import { UNAVAILABLE } from './unavailable.js';
import { checkUpstreams } from './upstream-checks.js';

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
  checkUpstreams(config, source, add);
  if (checkRoutes(config, add)) checkPolicy(config, source.lines, add);
  checkIdentity(config, add);
  return faults;
}

function notAvailable(setting: string): string {
  return `${setting}: this setting is not available in this version`;
}

/** Notes a fault of a place. */
export type Add = (path: Path, message: string) => void;

/** Fields that frame a request, route it, carry a credential, or that the proxy itself sets. */
const TAKEN = new Set([
  'host', 'content-length', 'content-type', 'content-encoding', 'transfer-encoding', 'connection', 'upgrade', 'te', 'trailer',
  'keep-alive', 'expect', 'cookie', 'forwarded', 'via', 'x-request-id', 'x-real-ip',
]); // prettier-ignore

function isTaken(name: string, config: Config): boolean {
  const { key, otp } = vendorNames(config.interface);
  return (
    TAKEN.has(name) ||
    name.startsWith('x-forwarded-') ||
    name.startsWith('proxy-') ||
    name.startsWith('sec-') ||
    name === key.toLowerCase() ||
    name === otp.toLowerCase()
  );
}

function checkIdentity(config: Config, add: Add): void {
  const seen = new Map<string, string>();
  for (const [key, name] of Object.entries(config.identity.headers)) {
    if (name === null) continue;
    if (isTaken(name.toLowerCase(), config)) {
      const message = `identity.headers.${key}: ${name} means something else already; choose a name that nothing else uses`;
      add(['identity', 'headers', key], message);
    }
    const other = seen.get(name.toLowerCase());
    if (other !== undefined)
      add(['identity', 'headers', key], `identity.headers.${key}: ${name} is the name of ${other} already`);
    seen.set(name.toLowerCase(), key);
  }
}
