import { join } from 'node:path';
import * as fc from 'fast-check';
import t from 'tap';
import { HttpAccounts } from '../../src/accounts/http-accounts.js';
import { changeUser, findUser } from '../../src/commands/with-store.js';
import { isAsVerified } from '../../src/domain/user.js';
import type { OpenedStore } from '../../src/server/stores/open-store.js';
import type { DirectoryStore } from '../../src/store/core/directory.js';
import { openLmdbStore } from '../../src/store/lmdb.js';
import { serveHttp } from '../helpers/http.js';
import { temporaryFolder } from '../helpers/latchkey.js';
import { options, told } from '../helpers/property.js';
import { user } from '../store/contract/records.js';

const METHODS = ['getUser', 'getUserByLogin', 'getCustomer', 'change'] as const;

/** Orders the steps of concurrent actors: once all of them wait, one of them takes its next step. */
class Turns {
  readonly #choices: readonly number[];
  readonly #waiting: (() => void)[] = [];
  #taken = 0;
  #actors = 0;

  constructor(choices: readonly number[]) {
    this.#choices = choices;
  }

  /** Runs an actor on a directory whose calls are its steps. Start all before the first `await`. */
  async run<T>(inner: DirectoryStore, act: (directory: DirectoryStore) => Promise<T>): Promise<T> {
    this.#actors += 1;
    await Promise.resolve();
    const calls = METHODS.map((name) => {
      const call = inner[name] as (...args: unknown[]) => unknown;
      return [name, async (...args: unknown[]) => (await this.#turn(), call(...args))];
    });
    return act({ ...inner, ...(Object.fromEntries(calls) as Partial<DirectoryStore>) }).finally(() => {
      this.#actors -= 1;
      this.#next();
    });
  }

  async #turn(): Promise<void> {
    return new Promise((done) => {
      this.#waiting.push(done);
      this.#next();
    });
  }

  #next(): void {
    if (this.#waiting.length === 0 || this.#waiting.length < this.#actors) return;
    const choice = this.#choices[this.#taken++] ?? 0;
    this.#waiting.splice(choice % this.#waiting.length, 1)[0]?.();
  }
}

/** Starts an account source that accepts every password. A login is the user's id, or `ID:MORE`. */
async function accountSource(t: { teardown: (fn: () => void) => void }): Promise<string> {
  const { url } = await serveHttp(t, (request, response) => {
    request.setEncoding('utf8').once('data', (body: string) => {
      const [id] = (JSON.parse(body) as { login: string }).login.split(':');
      response.setHeader('Content-Type', 'application/json');
      response.end(JSON.stringify({ id, customer_id: 'C1', name: 'new', role: 'user' }));
    });
  });
  return url;
}

interface Situation {
  /** Whether the user exists, under which login. */
  readonly before: 'none' | 'same' | 'renamed';
  /** Whether another user has the login. */
  readonly isHeld: boolean;
  readonly isLocked: boolean;
}

const SITUATION = fc.record<Situation>({
  before: fc.constantFrom('none', 'same', 'renamed'),
  isHeld: fc.boolean(),
  isLocked: fc.boolean(),
});

t.test('concurrent logins of one user all succeed, and none undoes a lock', async (t) => {
  const { directory, maintenance } = openLmdbStore(join(temporaryFolder(t), 'store'));
  t.teardown(async () => maintenance.close());
  const settings = { url: await accountSource(t), timeout: 60_000 };
  await directory.change({ customers: [{ id: 'C1', name: 'One' }] }, 1);
  const { now } = Date;
  let runs = 0;
  let ticks = 0;
  // Otherwise two records could have the same time of creation by chance.
  Date.now = () => now() + ++ticks;
  t.teardown(() => void (Date.now = now));

  const check = async (choices: number[], { before, isHeld, isLocked }: Situation) => {
    const id = `U${++runs}`;
    const login = before === 'same' ? id : `${id}:new`;
    const users = [
      ...(before === 'none' ? [] : [user(id, { login: id, name: 'old' })]),
      ...(isHeld && before !== 'same' ? [user(`other-${id}`, { login })] : []),
    ];
    await directory.change({ users }, 1);
    const turns = new Turns(choices);
    const logIn = async (racing: DirectoryStore) => {
      const accounts = new HttpAccounts(racing, settings);
      const checked = await accounts.check({ login, password: 'x', otp: undefined });
      await accounts.close();
      // As a session is created: only for the user as verified.
      return checked.verdict === 'right' && isAsVerified(await racing.getUser(id), checked.user);
    };
    const lock = async (racing: DirectoryStore) => {
      const opened = { store: { directory: racing } } as unknown as OpenedStore;
      const found = await findUser(racing, id).catch(() => undefined);
      if (found !== undefined) await changeUser(opened, found, { locked: true, lockedBy: 'operator' });
      return found !== undefined;
    };
    const [first, second, isDone] = await Promise.all([
      turns.run(directory, logIn),
      turns.run(directory, logIn),
      isLocked ? turns.run(directory, lock) : false,
    ]);
    const after = await directory.getUser(id);
    if (isDone && after?.lockedBy !== 'operator') throw new Error('the lock was undone');
    if (!isDone && !(first && second)) throw new Error('a login was refused');
  };
  const choices = fc.array(fc.nat(5), { minLength: 8, maxLength: 24 });
  // Two first logins: one reads, the other one is done before it reads further, then it writes.
  const rare = [0, 0, 0, 1, 1, 0, 1, 1];
  const details = await fc.check(fc.asyncProperty(choices, SITUATION, check), {
    ...options<[number[], Situation]>(200),
    examples: [[rare, { before: 'none', isHeld: false, isLocked: false }]],
  });
  t.notOk(details.failed, told(details));
});
