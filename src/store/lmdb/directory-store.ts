import { loginKey } from '../../domain/user.js';
import type { DirectoryStore } from '../directory-store.js';
import { addsNothing, applyChanges } from './changes.js';
import { type Databases, PASSWORD_COST } from './databases.js';
import type { Lists } from './lists.js';
import { readCustomer, readService, readUser, readUserByLogin } from './read.js';
import type { Transactions } from './transactions.js';

export function lmdbDirectoryStore(transactions: Transactions, lists: Lists): DirectoryStore {
  return {
    getCustomer: (id) => transactions.read((dbs) => readCustomer(dbs, id)),
    getService: (id) => transactions.read((dbs) => readService(dbs, id)),
    getUser: (id) => transactions.read((dbs) => readUser(dbs, id)),
    getUserByLogin: (login) => transactions.read((dbs) => readUserByLogin(dbs, loginKey(login))),
    listCustomers: () => lists.customers(),
    listServices: (customerId) => lists.services(customerId),
    listUsers: (customerId) => lists.users(customerId),
    listPendingDeletions: () => lists.keys('pendingDeletions'),
    getPasswordCost: () => transactions.read(({ meta }) => meta.get(PASSWORD_COST) ?? 0),
    change: async (changes, now) => {
      const isReserved = transactions.read((dbs) => addsNothing(dbs, changes));
      const apply = (dbs: Databases) => applyChanges(dbs, changes, now);
      return isReserved ? transactions.remove(apply) : transactions.write(apply);
    },
  };
}
