import { createHash } from 'node:crypto';
import type { LoadedConfig } from './load.js';
import { maskSecrets } from './mask.js';

/**
 * A short digest of a configuration, without its secrets: sidecars with the same one decide alike. The rules of a shadow policy
 * are no part of it, because they decide nothing.
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
