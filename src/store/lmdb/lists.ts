import type { Session } from '../../domain/session.js';
import type { Customer, Service, User } from '../../domain/user.js';
import type { TokenWithUse } from '../token-store.js';
import { countIndex, type Databases, indexRange } from './databases.js';
import { readCustomer, readService, readSession, readTokenWithUse, readUser } from './read.js';
import type { Transactions } from './transactions.js';

type Names = 'customers' | 'declared' | 'pendingDeletions' | 'revoked';
type Indexes = 'servicesOf' | 'usersOf' | 'tokensOf' | 'sessionsOf';

/** Reads lists of any length; other work is served in between. */
export class Lists {
  readonly #transactions: Transactions;

  constructor(transactions: Transactions) {
    this.#transactions = transactions;
  }

  /** Lists the keys of a database. */
  async keys(name: Names): Promise<string[]> {
    return this.#all(name, (_dbs, key) => key);
  }

  async customers(): Promise<Customer[]> {
    return this.#all('customers', readCustomer);
  }

  async declaredTokens(): Promise<TokenWithUse[]> {
    return this.#all('declared', readTokenWithUse);
  }

  async services(customerId: string): Promise<Service[]> {
    return this.#records('servicesOf', [customerId], readService);
  }

  async users(customerId: string): Promise<User[]> {
    return this.#records('usersOf', [customerId], readUser);
  }

  async sessions(userId: string): Promise<Session[]> {
    return this.#records('sessionsOf', [userId], readSession);
  }

  async tokens(userIds: readonly string[]): Promise<TokenWithUse[]> {
    return this.#records('tokensOf', userIds, readTokenWithUse);
  }

  async tokensOfCustomer(customerId: string): Promise<TokenWithUse[]> {
    return this.tokens(await this.#records('usersOf', [customerId], (_dbs, id) => id));
  }

  /** Counts the tokens of a customer's users. */
  async countTokens(customerId: string): Promise<number> {
    const counts = await this.#records('usersOf', [customerId], (dbs, id) => countIndex(dbs.tokensOf, id));
    return counts.reduce((sum, count) => sum + count, 0);
  }

  /** Reads a record for each key of a database. */
  async #all<T>(name: Names, read: (dbs: Databases, key: string) => T | undefined): Promise<T[]> {
    const list: T[] = [];
    await this.#transactions.scan(
      (dbs) => dbs[name],
      [{}],
      (dbs, key) => addTo(list, read(dbs, key)),
    );
    return list;
  }

  /** Reads a record for the second part of each index key that has one of these first parts. */
  async #records<T>(
    index: Indexes,
    firsts: readonly string[],
    read: (dbs: Databases, id: string) => T | undefined,
  ): Promise<T[]> {
    const list: T[] = [];
    const ranges = firsts.map(indexRange).filter((range) => range !== undefined);
    await this.#transactions.scan(
      (dbs) => dbs[index],
      ranges,
      (dbs, [, id]) => addTo(list, read(dbs, id)),
    );
    return list;
  }
}

function addTo<T>(list: T[], found: T | undefined): void {
  if (found !== undefined) list.push(found);
}
