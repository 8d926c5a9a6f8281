import type { LoadedConfig } from './load.js';
import { keysOf, replaceAt } from './schema-walk.js';
import { configSchema } from './schema/config.js';

const RESTART_KEYS = keysOf(configSchema)
  .filter(({ facts }) => facts.restart !== undefined)
  .map(({ path, facts }) => ({ path, name: path.join('.'), restart: facts.restart }));

export function needsRestart({ config: next }: LoadedConfig, { config: before }: LoadedConfig): string[] {
  const shown = RESTART_KEYS.filter(({ path, restart }) => {
    const [a, b] = [valueAt(next, path), valueAt(before, path)];
    return restart === 'presence' ? (a == null) !== (b == null) : JSON.stringify(a) !== JSON.stringify(b);
  });
  return shown.map(({ name }) => name);
}

/** @param changed the result of {@link needsRestart} for the two */
export function keepUntilRestart(
  next: LoadedConfig,
  before: LoadedConfig,
  changed: readonly string[],
): LoadedConfig {
  const kept = RESTART_KEYS.filter(
    ({ name, restart }) => restart === true || changed.some((each) => isWithin(each, name)),
  );
  const isKept = (at: string) => kept.some(({ name }) => isWithin(at, name));
  return {
    ...next,
    config: kept.reduce(
      (config, { path }) => replaceAt(config, path, () => valueAt(before.config, path)),
      next.config,
    ),
    certificate: isKept('listen.tls') ? before.certificate : next.certificate,
    written: Object.fromEntries([
      ...Object.entries(before.written).filter(([at]) => isKept(at)),
      ...Object.entries(next.written).filter(([at]) => !isKept(at)),
    ]),
  };
}

function isWithin(at: string, name: string): boolean {
  return at === name || at.startsWith(`${name}.`);
}

function valueAt(value: unknown, path: readonly string[]): unknown {
  return path.reduce((each, name) => (each as Record<string, unknown> | null | undefined)?.[name], value);
}
