import { mapMaybe } from '../util/async.js';
import type { User } from '../domain/user.js';
import type { Store } from './core/store.js';
import type { Revocations } from './revocations.js';

/** Corrects what a store says by the revocations that this process knows. */
export function withRevocations(inner: Store, revocations: Revocations): Store {
  const { tokens, sessions, directory } = inner;
  const corrected = (found: User | undefined) => found && revocations.correctedUser(found);
  return {
    ...inner,
    tokens: {
      ...tokens,
      find: (digest) =>
        mapMaybe(tokens.find(digest), (found) => {
          if (found === undefined || revocations.hasToken(found.token)) return undefined;
          const owner = revocations.correctedUser(found.owner);
          const token = revocations.corrected(found.token);
          return owner === found.owner && token === found.token ? found : { token, owner };
        }),
    },
    sessions: {
      ...sessions,
      find: (digest) =>
        mapMaybe(sessions.find(digest), (found) => {
          if (found === undefined || revocations.hasSession(digest)) return undefined;
          return { session: found.session, owner: revocations.correctedUser(found.owner) };
        }),
    },
    directory: {
      ...directory,
      getUser: (id) => mapMaybe(directory.getUser(id), corrected),
      getUserByLogin: (login) => mapMaybe(directory.getUserByLogin(login), corrected),
    },
  };
}
