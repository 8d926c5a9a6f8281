/** Names of the keys of whose changes a cache has to be notified. */
export const CACHED_NAMES = ['token:', 'session:', 'user:', 'legacy_keys'] as const;

/** What a cache drops. */
export interface Dropped {
  /** Digests of tokens. */
  readonly digests?: readonly string[];
  /** Digests of sessions. */
  readonly sessions?: readonly string[];
  /** Ids of tokens. */
  readonly ids?: readonly string[];
  /** Ids of users. */
  readonly users?: readonly string[];
  readonly legacyKeys?: boolean;
}

/** The records that changes of keys affect. @param names without the prefix of the store */
export function concernedBy(names: readonly string[]): Required<Omit<Dropped, 'ids'>> {
  const after = (start: string) =>
    names.filter((name) => name.startsWith(start)).map((name) => name.slice(start.length));
  return {
    digests: after('token:'),
    sessions: after('session:'),
    users: after('user:'),
    legacyKeys: names.includes('legacy_keys'),
  };
}
