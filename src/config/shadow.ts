import type { Lines } from '../policy/rules.js';
import { checkSource } from './check-source.js';
import { crossCheck } from './cross-checks.js';
import { ConfigError, type Fault } from './fault.js';
import type { Config } from './schema/config.js';
import { shadowSchema } from './schema/shadow-file.js';
import { readSource, type Source } from './source.js';

/** The sections that the file has; the others are those of the configuration. */
type Sections = Partial<Pick<Config, 'policy' | 'routes' | 'default_route'>>;

/** The rules of `policy_shadow`. They are plain data, so that one process can send them to another. */
export interface LoadedShadow {
  readonly file: string;
  readonly sections: Sections;
  readonly lines: Lines;
  /** What the file says where something was expanded. */
  readonly written: Readonly<Record<string, string>>;
  /** What would keep the rules from being taken over into the configuration. */
  readonly obstacles: readonly string[];
}

/** A configuration and where its parts stand. */
export interface Rules {
  readonly config: Config;
  readonly lines: Lines;
  readonly written: Readonly<Record<string, string>>;
}

/** The configuration as it is when the sections of its shadow policy take the place of its own; null without one. */
export function withShadow(loaded: Rules & { readonly shadow: LoadedShadow | null }): Rules | null {
  return loaded.shadow === null ? null : promoted(loaded, loaded.shadow);
}

/** Rules with some sections of another file in place of their own. */
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

/** Reads and checks the shadow policy of a checked configuration; null without one. @throws ConfigError with every fault */
export function loadShadow(loaded: Rules, env: NodeJS.ProcessEnv): LoadedShadow | null {
  const file = loaded.config.policy_shadow;
  if (file === null) return null;
  const source = readSource(file, env);
  const sections = checkSource(source, shadowSchema) as Sections;
  const { lines, written } = source;
  const { faults, obstacles } = check(promoted(loaded, { sections, lines, written }), sections, source);
  if (faults.length > 0) throw new ConfigError(faults);
  return { file, sections, lines, written, obstacles };
}

/** Checks the configuration that a promotion makes. What is wrong with sections that the file does not have is no fault of it. */
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

/** What does not belong to the sections that another file has. */
function withoutSections<T>(
  byPath: Readonly<Record<string, T>>,
  sections: Sections,
): Readonly<Record<string, T>> {
  const isReplaced = (path: string) => Object.hasOwn(sections, path.split('.', 1)[0] ?? '');
  return Object.fromEntries(Object.entries(byPath).filter(([path]) => !isReplaced(path)));
}
