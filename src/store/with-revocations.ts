import { mapMaybe } from '../util/async.js';
import type { User } from '../domain/user.js';
import type { Creations, Revocations } from './revocations.js';
import type { Store } from './core/store.js';

/** Corrects what a store says by the revocations that this process knows, and notes what it creates. */
export function withRevocations(inner: Store, revocations: Revocations, creations: Creations): Store {
  const { tokens, sessions, directory } = inner;
  const corrected = (user: User) => revocations.correctedUser(user);
  return {
    ...inner,
    tokens: {
      ...tokens,
      find: (digest) =>
        mapMaybe(tokens.find(digest), (found) => {
          if (found === undefined || revocations.hasToken(found.token)) return undefined;
          const owner = corrected(found.owner);
          const token = revocations.corrected(found.token);
          return owner === found.owner && token === found.token ? found : { token, owner };
        }),
      create: async (record, owner, limits, now) => {
        const result = await tokens.create(record, owner, limits, now);
        if (result === 'created') creations.note({ kind: 'token', record, owner });
        return result;
      },
      rotate: async (rotation, owner, limits, now) => {
        const result = await tokens.rotate(rotation, owner, limits, now);
        if (result === 'rotated') {
          creations.replace(rotation.old);
          creations.note({ kind: 'token', record: rotation.replacement, owner });
        }
        return result;
      },
      update: async (record, basedOn, more) => {
        const result = await tokens.update(record, basedOn, more);
        const others = more?.others?.map(({ token }) => token) ?? [];
        if (result === 'updated') for (const each of [record, ...others]) creations.replace(each);
        return result;
      },
    },
    sessions: {
      ...sessions,
      find: (digest) =>
        mapMaybe(sessions.find(digest), (found) => {
          if (found === undefined || revocations.hasSession(digest)) return undefined;
          return { session: found.session, owner: corrected(found.owner) };
        }),
      create: async (record, owner, ...rest) => {
        const result = await sessions.create(record, owner, ...rest);
        if (typeof result !== 'string') creations.note({ kind: 'session', record, owner });
        return result;
      },
    },
    directory: {
      ...directory,
      getUser: (id) => mapMaybe(directory.getUser(id), (found) => found && corrected(found)),
      getUserByLogin: (login) =>
        mapMaybe(directory.getUserByLogin(login), (found) => found && corrected(found)),
    },
  };
}
