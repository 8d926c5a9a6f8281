import { existsSync } from 'node:fs';
import type { Lines } from '../policy/rules.js';
import { checkSource } from './check-source.js';
import { crossCheck } from './cross-checks.js';
import { ConfigError, type Fault } from './fault.js';
import { NO_FILE } from './pem.js';
import type { Config } from './schema/config.js';
import { shadowSchema } from './schema/shadow-file.js';
import { readSource, type Source } from './source.js';

type Sections = Partial<Pick<Config, 'policy' | 'routes' | 'default_route'>>;

/** The rules of `policy_shadow`, as plain data, so that processes can send them to each other. */
export interface LoadedShadow {
  readonly file: string;
  readonly sections: Sections;
  readonly lines: Lines;
  readonly written: Readonly<Record<string, string>>;
  /** Faults outside these sections that would prevent a promotion into the configuration. */
  readonly obstacles: readonly string[];
}

export interface Rules {
  readonly config: Config;
  readonly lines: Lines;
  readonly written: Readonly<Record<string, string>>;
}

/** Returns the configuration with the sections of its shadow policy in place of its own; null without one. */
export function withShadow(loaded: Rules & { readonly shadow: LoadedShadow | null }): Rules | null {
  return loaded.shadow === null ? null : promoted(loaded, loaded.shadow);
}

export function promoted(
  { config, lines, written }: Rules,
  shadow: Pick<LoadedShadow, 'sections' | 'lines' | 'written'>,
): Rules {
  const { sections } = shadow;
  return {
    config: { ...config, ...sections },
    lines: { ...withoutSections(lines, sections), ...shadow.lines },
    written: { ...withoutSections(written, sections), ...shadow.written },
  };
}

/**
 * Reads and checks the shadow policy of a checked configuration; null without one.
 * @throws ConfigError with every fault
 */
export function loadShadow(
  loaded: Rules & { readonly file: string },
  env: NodeJS.ProcessEnv,
): LoadedShadow | null {
  const file = loaded.config.policy_shadow;
  if (file === null) return null;
  if (!existsSync(file)) {
    const line = loaded.lines['policy_shadow'] ?? 1;
    throw new ConfigError(
      [{ file: loaded.file, line, column: 1, message: `policy_shadow: ${NO_FILE}` }],
      [file],
    );
  }
  const source = readSource(file, shadowSchema, env);
  const sections = checkSource(source, shadowSchema) as Sections;
  const { lines, written } = source;
  const { faults, obstacles } = check(promoted(loaded, { sections, lines, written }), sections, source);
  if (faults.length > 0) throw new ConfigError(faults);
  return { file, sections, lines, written, obstacles };
}

/** Checks the result of a promotion. Faults of sections that the file lacks are obstacles. */
function check(
  { config, lines, written }: Rules,
  sections: Sections,
  source: Source,
): { faults: Fault[]; obstacles: string[] } {
  const obstacles: string[] = [];
  const faults: Fault[] = [];
  const fault: Source['fault'] = (path, message, at) => {
    const found = source.fault(path, message, at);
    if (Object.hasOwn(sections, path[0] ?? '')) faults.push(found);
    else obstacles.push(message);
    return found;
  };
  crossCheck(config, { file: source.file, value: source.value, lines, written, fault });
  return { faults, obstacles };
}

/** Returns the entries outside the sections that another file contains. */
function withoutSections<T>(
  byPath: Readonly<Record<string, T>>,
  sections: Sections,
): Readonly<Record<string, T>> {
  const isReplaced = (path: string) => Object.hasOwn(sections, path.split('.', 1)[0] ?? '');
  return Object.fromEntries(Object.entries(byPath).filter(([path]) => !isReplaced(path)));
}
