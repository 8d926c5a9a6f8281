import { isAsVerified } from '../../domain/user.js';
import type { SessionStore } from '../session-store.js';
import type { Lists } from './lists.js';
import type { LookUps } from './look-ups.js';
import { noteLogouts } from './provider-logouts.js';
import { readUser } from './read.js';
import { createSession, endSessions, removeSession } from './sessions.js';
import { addSudo, hasSudo } from './sudo-grants.js';
import type { Transactions } from './transactions.js';

export function lmdbSessionStore(transactions: Transactions, lookUps: LookUps, lists: Lists): SessionStore {
  return {
    find: (digest) => transactions.read(() => lookUps.session(digest)),
    listOfUser: (userId) => lists.sessions(userId),
    create: async (session, owner, maxPerUser, login) =>
      transactions.write((dbs) => createSession(dbs, session, owner, maxPerUser, login)),
    noteLogouts: async (logouts, until) => transactions.remove((dbs) => noteLogouts(dbs, logouts, until)),
    end: async (digest) => transactions.remove((dbs) => removeSession(dbs, digest)),
    endOfUser: async (userId, except) => transactions.remove((dbs) => endSessions(dbs, userId, except)),
    grantSudo: async (owner, credentialId, until) =>
      transactions.write((dbs) => {
        if (!isAsVerified(readUser(dbs, owner.id), owner)) return 'owner_changed';
        addSudo(dbs, owner.id, credentialId, until);
        return 'granted';
      }),
    hasSudo: (userId, credentialId, now) =>
      transactions.read((dbs) => hasSudo(dbs, userId, credentialId, now)),
  };
}
