import { mapMaybe } from '../../domain/maybe-promise.js';
import type { Store } from '../store.js';
import type { TokenCache } from './token-cache.js';

/** A store with a cache in front, which answers look-ups and drops what this process changes. */
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
    create: async (token, ...rest) => {
      const digests = [token.digest];
      cache.sending(digests);
      let result;
      try {
        result = await inner.create(token, ...rest);
        if (result !== 'created') cache.notChanged(digests);
        return result;
      } finally {
        cache.drop({ digests });
        // What was read at the notification, which comes before the answer, was dropped just now.
        if (result === 'created') cache.warm(digests);
      }
    },
    rotate: async (rotation, ...rest) => {
      const digests = [rotation.old.digest, rotation.replacement.digest];
      cache.sending(digests);
      try {
        const result = await inner.rotate(rotation, ...rest);
        if (result !== 'rotated') cache.notChanged(digests);
        return result;
      } finally {
        cache.drop({ digests });
      }
    },
    update: async (token, basedOn) => {
      const digests = [token.digest];
      cache.drop({ digests });
      cache.sending(digests);
      let result;
      try {
        result = await inner.update(token, basedOn);
        if (result !== 'updated') cache.notChanged(digests);
        return result;
      } finally {
        cache.drop({ digests });
        if (result === 'updated') cache.warm(digests);
      }
    },
    revoke: async (ids) => {
      // Before, so that a fault in between leaves nothing behind, and after, for what was read meanwhile.
      const digests = cache.digestsOf(ids);
      cache.drop({ digests });
      cache.sending(digests);
      try {
        const missing = await inner.revoke(ids);
        if (missing.length > 0) cache.notChanged(digests);
        return missing;
      } finally {
        cache.drop({ ids, legacyKeys: true });
      }
    },
  };
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
        // A write that threw may have happened all the same.
        const users = [...(changes.users ?? []).map(({ id }) => id), ...(changes.removeUsers ?? [])];
        const { tokens = [], declared = [], removeTokens = [], revokeDeclared = [] } = changes;
        const digests = [...tokens, ...declared].map(({ digest }) => digest);
        // A declared token may have had another digest.
        const ids = [...removeTokens, ...revokeDeclared, ...declared.map(({ id }) => id)];
        cache.drop({ digests, ids, users, legacyKeys: true });
      }
    },
  };
}
