import type { LoadedConfig } from './load.js';
import { below, hasSecretPathAt, isSecretAt, type SchemaLayers, layersOf } from './schema-walk.js';
import { configSchema } from './schema/config.js';
import { createHash } from 'node:crypto';

const MASK = '***';

/**
 * Returns a configuration that is safe to show.
 *
 * It has no secrets, no user, password, query or fragment in a URL, and no path in the URL of a
 * webhook. Expanded values appear as they are written in the file, unless what is written beside
 * `${...}` may be such a part.
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

/**
 * Returns a short digest of a configuration, without its secrets.
 *
 * Sidecars with the same digest decide alike. The rules of a shadow policy are not included,
 * because they decide nothing.
 */
export function configHash(loaded: Pick<LoadedConfig, 'config' | 'written'>): string {
  return createHash('sha256')
    .update(JSON.stringify(maskSecrets(loaded)))
    .digest('hex')
    .slice(0, 12);
}

export function logSettings(loaded: Pick<LoadedConfig, 'config' | 'written'>): {
  readonly level: string;
  readonly configHash: string;
} {
  return { level: loaded.config.log.level, configHash: configHash(loaded) };
}
