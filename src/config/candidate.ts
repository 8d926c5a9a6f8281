import { resolve } from 'node:path';
import { crossCheck } from './cross-checks.js';
import { throwProblems } from './fault.js';
import { type LoadedConfig, loadConfig } from './load.js';
import { configSchema } from './schema/config.js';
import { shadowSchema } from './schema/policy.js';
import { checkSections, promoted, type Sections } from './shadow.js';
import { readSource, type Source } from './source.js';

export interface Candidate {
  readonly loaded: LoadedConfig;
  readonly fileOf: (key: string) => string;
}

/**
 * Reads a whole configuration, or only sections that decide requests. @throws ConfigError with every fault
 */
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
  const rules = promoted(running, { sections, lines: source.lines, written: source.written });
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
  return isOfSections && Object.keys(value).length > 0 ? checkSections(source) : undefined;
}
