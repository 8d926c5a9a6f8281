import { existsSync } from 'node:fs';
import type { Lines } from '../policy/rules.js';
import { checkSource } from './check-source.js';
import { crossCheck } from './cross-checks.js';
import { ConfigError, type Problem, throwProblems } from './fault.js';
import { NO_FILE } from './certificate.js';
import type { Config } from './schema/config.js';
import { shadowSchema } from './schema/policy.js';
import { readSource, type Source } from './source.js';

export type Sections = Partial<Pick<Config, 'policy' | 'routes' | 'default_route'>>;

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

/** Reads and checks the shadow policy, if there is one. @throws ConfigError with every fault */
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
  const sections = checkSections(source);
  const { lines, written } = source;
  const rules = promoted(loaded, { sections, lines, written });
  const problems = crossCheck(rules.config, rules);
  const isOwn = ({ path }: Problem) => Object.hasOwn(sections, path[0] ?? '');
  throwProblems(problems.filter(isOwn), source);
  const obstacles = problems.filter((each) => !isOwn(each)).map(({ message }) => message);
  return { file, sections, lines, written, obstacles };
}

export function checkSections(source: Source): Sections {
  return checkSource(source, shadowSchema) as Sections;
}

/** Returns the entries outside the sections that another file contains. */
function withoutSections<T>(
  byPath: Readonly<Record<string, T>>,
  sections: Sections,
): Readonly<Record<string, T>> {
  const isReplaced = (path: string) => Object.hasOwn(sections, path.split('.', 1)[0] ?? '');
  return Object.fromEntries(Object.entries(byPath).filter(([path]) => !isReplaced(path)));
}
