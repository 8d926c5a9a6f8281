import { resolve } from 'node:path';
import { checkSource } from './check-source.js';
import { crossCheck } from './cross-checks.js';
import { ConfigError } from './fault.js';
import { type LoadedConfig, loadConfig } from './load.js';
import { configSchema } from './schema/config.js';
import { promoted } from './shadow.js';
import { readSource, type Source } from './source.js';

/** The sections that decide requests. A file with no others is a candidate for them. */
const SECTIONS = ['policy', 'routes', 'default_route'] as const;
type Section = (typeof SECTIONS)[number];

const sectionsSchema = configSchema.pick({ policy: true, routes: true, default_route: true });

export interface Candidate {
  readonly loaded: LoadedConfig;
  readonly fileOf: (key: string) => string;
}

/**
 * Reads a whole configuration, or a file with only some of `policy`, `routes` and `default_route`, which
 * replace those of the running one.
 * @throws ConfigError with every fault
 */
export function loadCandidate(
  file: string,
  running: LoadedConfig,
  env: NodeJS.ProcessEnv = process.env,
): Candidate {
  const source = readSource(resolve(file), configSchema, env);
  const given = sectionsOf(source);
  if (given === undefined) {
    const loaded = loadConfig(file, env);
    return { loaded, fileOf: () => loaded.file };
  }
  return {
    loaded: { ...withSections(running, source, given), file: source.file },
    fileOf: (key) => (given.some((section) => section === key) ? source.file : running.file),
  };
}

function sectionsOf({ value }: Source): readonly Section[] | undefined {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return undefined;
  const keys = Object.keys(value);
  const given = SECTIONS.filter((section) => keys.includes(section));
  return given.length > 0 && given.length === keys.length ? given : undefined;
}

function withSections(running: LoadedConfig, source: Source, given: readonly Section[]): LoadedConfig {
  const read = checkSource(source, sectionsSchema);
  const sections = Object.fromEntries(given.map((section) => [section, read[section]]));
  const rules = promoted(running, { sections, lines: source.lines, written: source.written });
  const faults = crossCheck(rules.config, { ...source, lines: rules.lines, written: rules.written });
  if (faults.length > 0) throw new ConfigError(faults);
  return { ...running, ...rules };
}
