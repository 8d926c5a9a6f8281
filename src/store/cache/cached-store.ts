import { mapMaybe } from '../../util/async.js';
import type { Store } from '../core/store.js';
import type { TokenCache } from './token-cache.js';

/** Puts a cache in front of a store: it answers look-ups and drops what this process changes. */
export function cachedStore(inner: Store, cache: TokenCache): Store {
  return {
    ...inner,
    tokens: { ...inner.tokens, ...cachedTokens(inner.tokens, cache) },
    sessions: { ...inner.sessions, find: (digest) => cache.sessions.find(digest) },
    directory: { ...inner.directory, ...cachedDirectory(inner.directory, cache) },
  };
}

function cachedTokens(
  inner: Store['tokens'],
  cache: TokenCache,
): Pick<Store['tokens'], 'find' | 'hasLegacyKeys' | 'create' | 'rotate' | 'update' | 'revoke'> {
  return {
    find: (digest) => cache.findToken(digest),
    hasLegacyKeys: () => cache.legacyKeys.exist(),
    create: (token, ...rest) =>
      changing(cache, [], [token.digest], () => inner.create(token, ...rest), 'created'),
    rotate: (rotation, ...rest) => {
      const [old, fresh] = [rotation.old.digest, rotation.replacement.digest];
      return changing(cache, [old], [fresh], () => inner.rotate(rotation, ...rest), 'rotated');
    },
    update: (token, basedOn, more) => {
      const digests = [token, ...(more?.others ?? []).map((each) => each.token)].map(({ digest }) => digest);
      cache.drop(digests.map((digest) => `digest:${digest}`));
      return changing(cache, digests, [], () => inner.update(token, basedOn, more), 'updated');
    },
    revoke: async (ids, onFound) => {
      // Drop before, in case a fault comes in between, and after, for what was read meanwhile.
      const digests = cache.digestsOf(ids);
      const names = [...ids.map((id) => `token:${id}`), 'legacy_keys'];
      cache.drop(names);
      cache.sending(digests);
      try {
        const result = await inner.revoke(ids, onFound);
        if (result.missing.length > 0) cache.lag.notChanged(digests);
        cache.drop(result.revoked.map((id) => `token:${id}`));
        return result;
      } finally {
        cache.drop(names);
      }
    },
  };
}

/**
 * @param changed digests of tokens that change, of which all processes are notified
 * @param added digests of new ones, of which PostgreSQL notifies nobody
 * @param done the result that means they were changed
 */
async function changing<T>(
  cache: TokenCache,
  changed: readonly string[],
  added: readonly string[],
  change: () => Promise<T>,
  done: T,
): Promise<T> {
  const digests = [...changed, ...added];
  cache.sending(changed);
  let result: T | undefined;
  try {
    result = await change();
    if (result !== done) cache.lag.notChanged(changed);
    return result;
  } finally {
    cache.drop(digests.map((digest) => `digest:${digest}`));
    // The notification precedes the reply; what was read then has just been dropped.
    if (result === done) cache.warm(digests);
  }
}

function cachedDirectory(
  inner: Store['directory'],
  cache: TokenCache,
): Pick<Store['directory'], 'getUser' | 'getUserByLogin' | 'change'> {
  return {
    getUser: (id) => mapMaybe(inner.getUser(id), (found) => cache.noteUser(found)),
    getUserByLogin: (login) => mapMaybe(inner.getUserByLogin(login), (found) => cache.noteUser(found)),
    change: async (changes, now) => {
      try {
        return await inner.change(changes, now);
      } finally {
        // A write that threw may still have been applied.
        const { users = [], removeUsers = [], tokens = [], declared = [] } = changes;
        // A declared token may have had another digest before.
        const ids = [...(changes.removeTokens ?? []), ...(changes.revokeDeclared ?? [])];
        cache.drop([
          ...[...users.map(({ id }) => id), ...removeUsers].map((id) => `user:${id}`),
          ...[...tokens, ...declared].map(({ digest }) => `digest:${digest}`),
          ...[...ids, ...declared.map(({ id }) => id)].map((id) => `token:${id}`),
          'legacy_keys',
        ]);
      }
    },
  };
}
