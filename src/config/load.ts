import { dirname, isAbsolute, resolve } from 'node:path';
import type { Lines } from '../policy/rules.js';
import { type ListenerCertificate, readCertificate } from './certificate.js';
import { crossCheck } from './cross-checks.js';
import { type Add, ConfigError, problemsOf, throwProblems } from './fault.js';
import { type Config, configSchema } from './schema/config.js';
import { checkSource } from './check-source.js';
import { keysOf, replaceAt } from './schema-walk.js';
import { type LoadedShadow, loadShadow } from './shadow.js';
import { readSource, type Source } from './source.js';

/** A configuration that passed every check, as plain data that processes can send to each other. */
export interface LoadedConfig {
  readonly file: string;
  readonly config: Config;
  readonly lines: Lines;
  /** Text of the file where something was expanded, by path; shown instead of the value. */
  readonly written: Readonly<Record<string, string>>;
  readonly certificate: ListenerCertificate | null;
  readonly shadow: LoadedShadow | null;
}

/** Reads and checks a configuration file. @throws ConfigError with every fault */
export function loadConfig(file: string, env: NodeJS.ProcessEnv = process.env): LoadedConfig {
  return load(file, env, () => null);
}

/**
 * Reads a configuration with its certificate, key and shadow policy. Commands that only use the store do not:
 * their user may not be allowed to read the key.
 * @throws ConfigError with every fault
 */
export function loadConfigToServe(file: string, env: NodeJS.ProcessEnv = process.env): LoadedConfig {
  const loaded = load(file, env, ({ listen }, add) => readCertificate(listen, Date.now(), add));
  return { ...loaded, shadow: loadShadow(loaded, env) };
}

function load(
  file: string,
  env: NodeJS.ProcessEnv,
  certificateOf: (config: Config, add: Add) => ListenerCertificate | null,
): LoadedConfig {
  const source = withoutShorthand(readSource(resolve(file), configSchema, env));
  const checked = withRoleOrder(checkSource(source, configSchema, ['upstream']), source);
  const config = withAbsolutePaths(checked, dirname(source.file));
  let certificate: ListenerCertificate | null = null;
  const ofCertificate = problemsOf((add) => (certificate = certificateOf(config, add)));
  throwProblems([...crossCheck(config, source), ...ofCertificate], source, filesNamedBy(config));
  return {
    file: source.file,
    config: deepFreeze(config),
    lines: source.lines,
    written: source.written,
    certificate,
    shadow: null,
  };
}

/** Expands `upstream: URL` to `upstreams: { api: { url: URL } }`; faults still name what was written. */
function withoutShorthand(source: Source): Source {
  const { value } = source;
  if (typeof value !== 'object' || value === null || Array.isArray(value) || !('upstream' in value))
    return source;
  const { upstream, ...rest } = value as Record<string, unknown>;
  if ('upstreams' in rest) {
    throw new ConfigError([source.fault(['upstream'], 'set either upstream or upstreams, not both', 'key')]);
  }
  return {
    ...source,
    value: { ...rest, upstreams: { api: { url: upstream } } },
    written: Object.fromEntries(
      Object.entries(source.written).map(([at, text]) => [
        at === 'upstream' ? 'upstreams.api.url' : at,
        text,
      ]),
    ),
    fault: (path, message, place) =>
      path[0] === 'upstreams'
        ? source.fault(['upstream'], asShorthand(message), place)
        : source.fault(path, message, place),
  };
}

function asShorthand(message: string): string {
  return message.replace('upstreams.api.url:', 'upstream:').replace('; write url:', '; write upstream:');
}

/** Puts the values that give a role at a login in the order of the file: the first one counts. */
function withRoleOrder(config: Config, source: Source): Config {
  const paths = Object.keys(source.lines);
  const oidc = config.login.oidc.map(({ roles, ...provider }, i) => {
    const map = `login.oidc.${i}.roles.map.`;
    const order = paths.filter((path) => path.startsWith(map)).map((path) => path.slice(map.length));
    return { ...provider, roles: { ...roles, order } };
  });
  return { ...config, login: { ...config.login, oidc } };
}

const PATHS = keysOf(configSchema).filter(({ facts }) => facts.path !== undefined);

function filesNamedBy(config: Config): string[] {
  const files: string[] = [];
  for (const { path, facts } of PATHS) {
    if (facts.written === true) continue;
    replaceAt(config, path, (value) => {
      if (typeof value === 'string') files.push(value);
      return value;
    });
  }
  return files;
}

function withAbsolutePaths(config: Config, folder: string): Config {
  return PATHS.reduce(
    (all, { path, facts }) =>
      replaceAt(all, path, (value) => {
        if (typeof value !== 'string' || isAbsolute(value)) return value;
        const isWord = typeof facts.path === 'object' && value === facts.path.except;
        return isWord ? value : resolve(folder, value);
      }),
    config,
  );
}

function deepFreeze<T>(value: T): T {
  if (typeof value === 'object' && value !== null) {
    Object.values(value).forEach(deepFreeze);
    Object.freeze(value);
  }
  return value;
}
