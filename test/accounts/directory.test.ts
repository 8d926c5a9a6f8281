import { join } from 'node:path';
import t from 'tap';
import { DirectoryApplier } from '../../src/accounts/directory.js';
import type { Difference } from '../../src/accounts/directory-differences.js';
import { localHasher, Passwords } from '../../src/accounts/passwords.js';
import { Sealer } from '../../src/accounts/sealing.js';
import { openLmdbStore } from '../../src/store/lmdb.js';
import type { Changes } from '../../src/store/core/directory-checks.js';
import type { Store } from '../../src/store/core/store.js';
import { temporaryFolder } from '../helpers/latchkey.js';
import { BASE, NOW, user } from '../store/contract/records.js';

/** A store in which another writer gets ahead, once, when a customer is about to be removed. */
function racedStore(inner: Store): Store {
  let others: Changes | undefined = { users: [user('U9', { customerId: 'C2' })] };
  const change = async (changes: Changes, now: number) => {
    if ((changes.removeCustomers ?? []).length > 0 && others !== undefined) {
      await inner.directory.change(others, now);
      others = undefined;
    }
    return inner.directory.change(changes, now);
  };
  return { ...inner, directory: { ...inner.directory, change } };
}

t.test('removes a user added concurrently together with the removed customer', async (t) => {
  for (const count of [1, 501]) {
    const store = racedStore(openLmdbStore(join(temporaryFolder(t), 'store')));
    await store.directory.change({ ...BASE, removeServices: ['S1'] }, NOW);
    const applier = new DirectoryApplier(store, {
      passwords: new Passwords(localHasher, 1),
      sealer: new Sealer(null),
    });
    const users = Array.from({ length: count }, (_, i) => `U${i + 10}`).map((id) => ({
      id, customer_id: 'C1', login: id, name: id, role: 'user', locked: false,
    })); // prettier-ignore
    const directory = { customers: [{ id: 'C1', name: 'One' }], services: [], users };
    const reported: Difference[] = [];
    const applied = await applier.apply(directory, NOW, (differences, outcome) => {
      t.equal(outcome, 'success');
      reported.push(...differences);
    });
    t.notOk('refused' in applied, `${count} users: retried`);
    const added = reported.filter(({ kind, change }) => kind === 'user' && change === 'add');
    t.same(
      added.map(({ id }) => id),
      users.map(({ id }) => id),
      'with what the first attempt wrote',
    );
    const removed = reported.filter(({ change }) => change === 'remove').map(({ id }) => id);
    t.same(removed.toSorted(), ['C2', 'S1', 'U1', 'U2', 'U3', 'U9'], 'each once');
    t.equal(await store.directory.getCustomer('C2'), undefined);
    t.equal(await store.directory.getUser('U9'), undefined, 'no user is left without a customer');
    t.equal((await store.directory.listUsers('C1')).length, count);
    await store.maintenance.close();
  }
});
