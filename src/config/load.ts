import { resolve } from 'node:path';
import { crossCheck } from './cross-checks.js';
import { ConfigError } from './fault.js';
import { type Config, configSchema } from './schema.js';
import { checkSource, readSource, resolvePath, type Source } from './source.js';

/** A configuration that passed every check. */
export interface LoadedConfig {
  readonly file: string;
  readonly config: Config;
}

/** Reads and checks a configuration file. @throws ConfigError with every fault */
export function loadConfig(file: string, env: NodeJS.ProcessEnv = process.env): LoadedConfig {
  const source = readSource(resolve(file), env);
  const config = checkSource(source, configSchema, expandShorthand(source));
  const faults = crossCheck(config, source);
  if (faults.length > 0) throw new ConfigError(faults);
  return { file: source.file, config: deepFreeze(withAbsolutePaths(config, source)) };
}

/** `upstream: URL` stands for `upstreams: { api: { url: URL } }`. */
function expandShorthand(source: Source): unknown {
  const { value } = source;
  if (typeof value !== 'object' || value === null || Array.isArray(value) || !('upstream' in value))
    return value;
  const { upstream, ...rest } = value as Record<string, unknown>;
  if ('upstreams' in rest) {
    throw new ConfigError([source.fault(['upstream'], 'give either upstream or upstreams, not both', 'key')]);
  }
  if (typeof upstream !== 'string') {
    throw new ConfigError([
      source.fault(['upstream'], 'upstream: expected a URL like http://127.0.0.1:3000'),
    ]);
  }
  return { ...rest, upstreams: { api: { url: upstream } } };
}

function withAbsolutePaths(config: Config, source: Source): Config {
  const { store, directory } = config;
  return {
    ...config,
    store: store.type === 'lmdb' ? { ...store, path: resolvePath(source, store.path) } : store,
    directory:
      directory !== null && 'file' in directory ? { file: resolvePath(source, directory.file) } : directory,
  };
}

function deepFreeze<T>(value: T): T {
  if (typeof value === 'object' && value !== null) {
    Object.values(value).forEach(deepFreeze);
    Object.freeze(value);
  }
  return value;
}
