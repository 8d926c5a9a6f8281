import { resolve } from 'node:path';
import type { Lines } from '../policy/rules.js';
import { crossCheck } from './cross-checks.js';
import { ConfigError } from './fault.js';
import { type Config, configSchema } from './schema/config.js';
import { checkSource } from './check-source.js';
import { readSource, resolvePath, type Source } from './source.js';

/** A configuration that passed every check. It is plain data, so that one process can send it to another. */
export interface LoadedConfig {
  readonly file: string;
  readonly config: Config;
  /** Where its parts stand in the file. */
  readonly lines: Lines;
}

/** Reads and checks a configuration file. @throws ConfigError with every fault */
export function loadConfig(file: string, env: NodeJS.ProcessEnv = process.env): LoadedConfig {
  const source = withoutShorthand(readSource(resolve(file), env));
  const config = checkSource(source, configSchema);
  const faults = crossCheck(config, source);
  if (faults.length > 0) throw new ConfigError(faults);
  return {
    file: source.file,
    config: deepFreeze(withAbsolutePaths(config, source)),
    lines: source.lines,
  };
}

/** `upstream: URL` stands for `upstreams: { api: { url: URL } }`; faults still name what was written. */
function withoutShorthand(source: Source): Source {
  const { value } = source;
  if (typeof value !== 'object' || value === null || Array.isArray(value) || !('upstream' in value))
    return source;
  const { upstream, ...rest } = value as Record<string, unknown>;
  if ('upstreams' in rest) {
    throw new ConfigError([source.fault(['upstream'], 'give either upstream or upstreams, not both', 'key')]);
  }
  return {
    ...source,
    value: { ...rest, upstreams: { api: { url: upstream } } },
    fault: (path, message, place) =>
      path[0] === 'upstreams'
        ? source.fault(['upstream'], message.replace('upstreams.api.url', 'upstream'), place)
        : source.fault(path, message, place),
  };
}

function withAbsolutePaths(config: Config, source: Source): Config {
  const { store, directory, audit, upstreams } = config;
  const toFile = audit.to !== null && audit.to !== 'stdout';
  return {
    ...config,
    audit: toFile ? { ...audit, to: resolvePath(source, audit.to as string) } : audit,
    store:
      store.type === 'lmdb'
        ? { ...store, path: resolvePath(source, store.path) }
        : { ...store, tls: withAbsoluteFiles(store.tls, source) },
    upstreams: Object.fromEntries(
      Object.entries(upstreams).map(([name, each]) => [
        name,
        { ...each, tls: withAbsoluteFiles(each.tls, source) },
      ]),
    ),
    directory: {
      ...directory,
      file: directory.file === null ? null : resolvePath(source, directory.file),
    },
  };
}

function withAbsoluteFiles<T extends { ca: string | null; cert: string | null; key: string | null }>(
  tls: T | null,
  source: Source,
): T | null {
  if (tls === null) return null;
  const absolute = (file: string | null) => (file === null ? null : resolvePath(source, file));
  return { ...tls, ca: absolute(tls.ca), cert: absolute(tls.cert), key: absolute(tls.key) };
}

function deepFreeze<T>(value: T): T {
  if (typeof value === 'object' && value !== null) {
    Object.values(value).forEach(deepFreeze);
    Object.freeze(value);
  }
  return value;
}
