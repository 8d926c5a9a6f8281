import type { SessionStore } from '../session-store.js';
import type { RedisClient } from './client.js';
import type { Reads } from './reads.js';
import { endedSessions, ownerText, sessionWithUse, sudoFrom, text, userFrom } from './records.js';

export function redisSessionStore(client: RedisClient, reads: Reads): SessionStore {
  return {
    find: async (digest) => {
      const found = (await client.script('find', 'session:', digest)) as
        [string, string, string | null] | null;
      if (found === null) return undefined;
      const session = sessionWithUse([digest, found[0], found[2] ?? '']);
      return { session, owner: userFrom(found[1], session.userId) };
    },
    listOfUser: async (userId) => reads.sessions(await reads.members(`sessions:${userId}`)),
    create: async (session, owner, maxPerUser, login) => {
      const under = login === undefined ? '' : JSON.stringify(login);
      const args = [text(session), ownerText(owner), maxPerUser ?? '', under] as const;
      const ended = (await client.script('createSession', ...args)) as
        string[] | 'owner_changed' | 'logged_out';
      return typeof ended === 'string' ? ended : endedSessions(ended);
    },
    noteLogouts: async (logouts, until) => {
      await client.script('noteLogouts', JSON.stringify(logouts), until);
    },
    end: async (digest) => (await client.script('endSession', digest)) === 1,
    endOfUser: async (userId, except) =>
      endedSessions((await client.script('endSessions', userId, except ?? '')) as string[]),
    grantSudo: async (owner, credentialId, until, now) => {
      const args = [ownerText(owner), credentialId, text({ until }), now] as const;
      return (await client.script('grantSudo', ...args)) as 'granted' | 'owner_changed';
    },
    hasSudo: async (userId, credentialId, now) => {
      const found = (await client.script('readSudo', userId, credentialId)) as string | null;
      return found !== null && sudoFrom(found).until > now;
    },
  };
}
