import type { DirectoryFile } from '../config/schema/directory-file.js';

/** The contents of a directory file. Without `tokens`, those in the store are revoked. */
export type Directory = Omit<DirectoryFile, 'tokens'> & {
  readonly tokens?: readonly DeclaredToken[];
  /** Milliseconds from when a token is first applied; absent or null: no limit. */
  readonly max_token_lifetime?: number | null;
};

/** Without `password` and `password_hash`, the user cannot log in. */
export type DirectoryUser = DirectoryFile['users'][number];

export type LegacyKey = NonNullable<DirectoryFile['legacy_keys']>[number];

export type DeclaredToken = DirectoryFile['tokens'][number];
