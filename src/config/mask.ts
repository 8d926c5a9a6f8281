import type { LoadedConfig } from './load.js';
import { below, hasSecretPathAt, isSecretAt, type SchemaLayers, layersOf } from './schema-walk.js';
import { configSchema } from './schema/config.js';
import { createHash } from 'node:crypto';

const MASK = '***';

/**
 * Returns a configuration without secrets, user, password, query and fragment of URLs, and paths of webhooks.
 * Expanded values appear as written, unless the text beside `${...}` may be such a part.
 */
export function maskSecrets({ config, written }: Pick<LoadedConfig, 'config' | 'written'>): unknown {
  return masked(config, layersOf(configSchema), [], written);
}

function masked(
  value: unknown,
  layers: SchemaLayers,
  path: readonly string[],
  written: LoadedConfig['written'],
): unknown {
  const at = path.join('.');
  if (value !== null && isSecretAt(layers)) return MASK;
  const shown = typeof value === 'string' ? maskUrl(value, hasSecretPathAt(layers)) : value;
  const text = written[at]?.replaceAll(
    /(\$\{[^}:]*:-)([^}]*)/g,
    (_, start: string, byDefault: string) => start + maskUrl(byDefault, hasSecretPathAt(layers)),
  );
  if (text !== undefined) return shown === value || /^(?:\$\{[^}]*\})+$/.test(text) ? text : MASK;
  if (typeof shown === 'string') return shown;
  const maskedAt = (name: string, each: unknown) =>
    masked(each, below(layers, name), [...path, name], written);
  if (Array.isArray(value)) return value.map((each, i) => maskedAt(String(i), each));
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([name, each]) => [name, maskedAt(name, each)]));
}

function maskUrl(text: string, hasSecretPath: boolean): string {
  if (!URL.canParse(text)) return hasSecretPath || /^[a-z][a-z0-9+.-]*:\/\//i.test(text) ? MASK : text;
  const url = new URL(text);
  const masksPath = hasSecretPath && url.pathname !== '/';
  if (`${url.username}${url.password}${url.search}${url.hash}` === '' && !masksPath) return text;
  if (url.username !== '') url.username = MASK;
  if (url.password !== '') url.password = MASK;
  if (masksPath) url.pathname = MASK;
  if (url.search !== '') url.search = MASK;
  if (url.hash !== '') url.hash = MASK;
  return url.href;
}

/** Returns a digest of a configuration without its secrets; sidecars with the same one decide alike. */
export function configHash(loaded: Pick<LoadedConfig, 'config' | 'written'>): string {
  return createHash('sha256')
    .update(JSON.stringify(maskSecrets(loaded)))
    .digest('hex')
    .slice(0, 12);
}

export function logSettings(loaded: Pick<LoadedConfig, 'config' | 'written'>) {
  const { level, level_format: levelFormat } = loaded.config.log;
  return { level, levelFormat, configHash: configHash(loaded) };
}
