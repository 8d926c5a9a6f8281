import type { FleetStore } from '../fleet-store.js';
import { answersTo, noteAnswer, noteQuestion } from './ended-log.js';
import { Members } from './members.js';
import type { Transactions } from './transactions.js';

/** The processes on an embedded store. Questions and answers stand behind what ended, in the same log. */
export function lmdbFleetStore(path: string, transactions: Transactions): FleetStore {
  const members = new Members(path);
  return {
    beat: (member) => members.beat(member),
    list: () => members.list(),
    leave: (id) => members.leave(id),
    // Nobody is kept from learning what became of a revocation, so these go on when there is little room.
    ask: async (question) => transactions.remove((dbs) => noteQuestion(dbs, question)),
    answer: async (question, member) => transactions.remove((dbs) => noteAnswer(dbs, question, member)),
    answers: (question) => transactions.read((dbs) => answersTo(dbs, question)),
  };
}
