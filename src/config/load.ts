// src/config: parses YAML into a checked `Config`; each fault has its line and column.
// May import endpoints and all below.
// `loadConfig` is the way in.

import { dirname, isAbsolute, resolve } from 'node:path';
import type { z } from 'zod';
import type { Lines } from '../policy/decide.js';
import { type ListenerCertificate, readCertificate } from './certificate.js';
import { crossCheck } from './cross-checks.js';
import { ConfigError, problemsOf, throwProblems, type Problem } from './fault.js';
import { type Config, configSchema } from './schema/config.js';
import { checkSource } from './check-source.js';
import { keysOf, replaceAt } from './schema-walk.js';
import { readSource, type Source } from './source.js';
import { shadowSchema } from './schema/policy.js';
import { upstreamSchema } from './schema/upstream.js';

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
  return load(file, env, false);
}

/**
 * Reads a configuration with its certificate, key and shadow policy. Commands that only use the store do not:
 * their user may not be allowed to read the key.
 * @throws ConfigError with every fault
 */
export function loadConfigToServe(file: string, env: NodeJS.ProcessEnv = process.env): LoadedConfig {
  const loaded = load(file, env, true);
  return { ...loaded, shadow: loadShadow(loaded, env) };
}

function load(file: string, env: NodeJS.ProcessEnv, serves: boolean): LoadedConfig {
  const source = readSource(resolve(file), configSchema, env);
  const checked = withRoleOrder(withUpstream(checkSource(source, configSchema), source), source);
  const config = withAbsolutePaths(checked, dirname(source.file));
  let certificate: ListenerCertificate | null = null;
  const ofCertificate = problemsOf((add) => {
    if (serves) certificate = readCertificate(config.listen, Date.now(), add);
  });
  throwProblems([...crossCheck(config, source), ...ofCertificate], source, filesNamedBy(config));
  const { upstream, ...written } = source.written;
  return {
    file: source.file,
    config,
    lines: source.lines,
    written: { ...written, ...(upstream === undefined ? {} : { 'upstreams.api.url': upstream }) },
    certificate,
    shadow: null,
  };
}

/** Expands `upstream: URL` to `upstreams: { api: { url: URL } }`. */
function withUpstream({ upstream, ...config }: z.output<typeof configSchema>, source: Source): Config {
  if (upstream === undefined) return config;
  if (source.lines['upstreams'] !== undefined)
    throw new ConfigError([source.fault(['upstream'], 'set either upstream or upstreams, not both', 'key')]);
  return { ...config, upstreams: { api: upstreamSchema.parse({ url: upstream }) } };
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

export type Sections = Partial<Pick<Config, 'policy' | 'routes' | 'default_route'>>;

/** The rules of `policy_shadow`, as plain data, so that processes can send them to each other. */
export interface LoadedShadow extends Pick<LoadedConfig, 'file' | 'lines' | 'written'> {
  readonly sections: Sections;
}

export type Rules = Pick<LoadedConfig, 'config' | 'lines' | 'written'>;

/** Returns the configuration with the sections of its shadow policy in place of its own; null without one. */
export function withShadow(loaded: Rules & { readonly shadow: LoadedShadow | null }): Rules | null {
  return loaded.shadow === null ? null : promoted(loaded, loaded.shadow);
}

function promoted({ config, lines, written }: Rules, { sections, ...shadow }: LoadedShadow): Rules {
  return {
    config: { ...config, ...sections },
    lines: { ...withoutSections(lines, sections), ...shadow.lines },
    written: { ...withoutSections(written, sections), ...shadow.written },
  };
}

/** Reads and checks the shadow policy, if there is one. @throws ConfigError with every fault */
export function loadShadow(loaded: Rules, env: NodeJS.ProcessEnv): LoadedShadow | null {
  const file = loaded.config.policy_shadow;
  if (file === null) return null;
  const source = readSource(file, shadowSchema, env);
  const { lines, written } = source;
  const shadow = { file, sections: checkSource(source, shadowSchema) as Sections, lines, written };
  const rules = promoted(loaded, shadow);
  // Other sections are only used with the shadow policy once it is promoted.
  const isOwn = ({ path }: Problem) => Object.hasOwn(shadow.sections, path[0] ?? '');
  throwProblems(crossCheck(rules.config, rules).filter(isOwn), source);
  return shadow;
}

/** Returns the entries outside the sections that another file contains. */
function withoutSections<T>(
  byPath: Readonly<Record<string, T>>,
  sections: Sections,
): Readonly<Record<string, T>> {
  const isReplaced = (path: string) => Object.hasOwn(sections, path.split('.', 1)[0] ?? '');
  return Object.fromEntries(Object.entries(byPath).filter(([path]) => !isReplaced(path)));
}

export interface Candidate {
  readonly loaded: LoadedConfig;
  readonly fileOf: (key: string) => string;
}

/** Reads a whole configuration, or only sections that decide requests. @throws ConfigError */
export function loadCandidate(
  file: string,
  running: LoadedConfig,
  env: NodeJS.ProcessEnv = process.env,
): Candidate {
  const source = readSource(resolve(file), configSchema, env);
  const sections = sectionsOf(source);
  if (sections === undefined) {
    const loaded = loadConfig(file, env);
    return { loaded, fileOf: () => loaded.file };
  }
  const rules = promoted(running, { ...source, sections });
  throwProblems(crossCheck(rules.config, rules), source);
  return {
    loaded: { ...running, ...rules, file: source.file },
    fileOf: (key) => (Object.hasOwn(sections, key) ? source.file : running.file),
  };
}

/** Returns the sections of a file that has no others; undefined for any other file. */
function sectionsOf(source: Source): Sections | undefined {
  const { value } = source;
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return undefined;
  const isOfSections = Object.keys(value).every((key) => Object.hasOwn(shadowSchema.shape, key));
  return isOfSections && Object.keys(value).length > 0
    ? (checkSource(source, shadowSchema) as Sections)
    : undefined;
}
