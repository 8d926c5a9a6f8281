import type { Config } from './schema/config.js';
import type { DirectoryFile } from './schema/directory-file.js';

export interface DirectoryRules {
  readonly roles: readonly string[];
  readonly scopes: readonly string[];
  /** Maximum lifetime of a new token, in milliseconds; null is no limit. */
  readonly maxLifetime: number | null;
}

export interface CheckedDirectory extends DirectoryFile {
  readonly max_token_lifetime: number | null;
}

export function directoryRules({ policy, tokens }: Pick<Config, 'policy' | 'tokens'>): DirectoryRules {
  const { roles, scopes } = policy;
  return { roles: Object.keys(roles), scopes: Object.keys(scopes), maxLifetime: tokens.max_lifetime };
}
