import { createHash } from 'node:crypto';
import type { LoadedConfig } from './load.js';
import { maskSecrets } from './mask.js';
import { withShadow } from './shadow.js';

/** A short digest of a configuration, without its secrets: sidecars with the same one run the same configuration. */
export function configHash(loaded: LoadedConfig): string {
  const shadow = withShadow(loaded);
  const masked = [loaded, ...(shadow === null ? [] : [shadow])].map((each) =>
    JSON.stringify(maskSecrets(each)),
  );
  return createHash('sha256').update(masked.join('\n')).digest('hex').slice(0, 12);
}
