import { join } from 'node:path';
import t from 'tap';
import { DirectoryApplier } from '../../src/accounts/directory.js';
import { type Difference, directoryAuditEvents } from '../../src/accounts/directory-differences.js';
import { localHasher, Passwords } from '../../src/accounts/passwords.js';
import { HttpAccounts } from '../../src/accounts/http-accounts.js';
import { succeededLogin } from '../../src/accounts/login.js';
import { Sealer } from '../../src/accounts/sealing.js';
import { openLmdbStore } from '../../src/store/lmdb.js';
import { serveHttp } from '../helpers/http.js';
import { temporaryFolder } from '../helpers/latchkey.js';
import { NOW, user } from '../store/contract/records.js';

type Change = [what: string, change: object, entries: object[]];

const target = { user_id: 'U1', customer_id: 'C1' };
const changed = (reason: string, more = {}) => ({
  event: 'user.changed', outcome: 'success', target: { ...target, ...more }, reason,
}); // prettier-ignore
const created = (reason: string) => ({
  event: 'user.created', outcome: 'success', target: { ...target, role: 'user' }, reason,
}); // prettier-ignore
const CHANGES: readonly Change[] = [
  ['a role', { role: 'admin' }, [changed('role', { role: 'admin', previous_role: 'user' })]],
  ['a name', { name: 'Other' }, [changed('name')]],
  ['a lock', { locked: true }, [changed('locked')]],
  ['an unlock and a role', { locked: false, role: 'user' }, [changed('role', { role: 'user', previous_role: 'admin' }), changed('unlocked')]],
  ['a login', { login: 'Other@example.com' }, [changed('login')]],
  ['nothing', {}, []],
]; // prettier-ignore

t.test('a directory file: each creation, change and removal of a user is an entry', async (t) => {
  const store = openLmdbStore(join(temporaryFolder(t), 'store'));
  t.teardown(async () => store.maintenance.close());
  const applier = new DirectoryApplier(store, { passwords: new Passwords(localHasher, 1), sealer: new Sealer(null) });
  let entry = { id: 'U1', customer_id: 'C1', login: 'a@example.com', name: 'A', role: 'user', locked: false };
  const customers = ['C1', 'C2'].map((id) => ({ id, name: id }));
  const apply = async (users: (typeof entry)[]) => {
    const reported: Difference[] = [];
    await applier.apply({ customers, services: [], users }, NOW, (differences) => reported.push(...differences));
    return directoryAuditEvents(reported).filter(({ event }) => event !== 'directory.applied');
  };
  t.same(await apply([entry]), [created('directory')]);
  const moved = changed('customer', { customer_id: 'C2', previous_customer_id: 'C1' });
  const rows: Change[] = [
    ...CHANGES,
    ['a customer', { customer_id: 'C2' }, [moved]],
    ['a password', { password: 'correct horse' }, [{ ...changed('password'), target: { user_id: 'U1', customer_id: 'C2' } }]],
  ];
  for (const [what, change, entries] of rows) {
    entry = { ...entry, ...change };
    t.match(await apply([entry]), entries, what);
    t.same(await apply([entry]), [], `${what}: once`);
  }
  t.match(await apply([]), [{ event: 'user.deleted', target: { user_id: 'U1', customer_id: 'C2' }, reason: 'not_in_directory' }]);
}); // prettier-ignore

t.test('an account source: each creation and change of a user is an entry of the login', async (t) => {
  const { directory, maintenance } = openLmdbStore(join(temporaryFolder(t), 'store'));
  t.teardown(async () => maintenance.close());
  let account: { login: string; [field: string]: unknown } = { id: 'U1', customer_id: 'C1', login: 'a@example.com', name: 'A', role: 'user' };
  const { url } = await serveHttp(t, (request, response) => {
    response.setHeader('Content-Type', 'application/json');
    request.resume().once('end', () => response.end(JSON.stringify(account)));
  });
  const accounts = new HttpAccounts(directory, { url, timeout: 60_000 });
  t.teardown(async () => accounts.close());
  const logIn = async () => {
    const checked = await accounts.check({ login: account.login, password: 'x', otp: undefined });
    if (checked.verdict === 'right') return succeededLogin(checked).filter(({ event }) => event !== 'login.succeeded');
    return checked.auditEvents;
  };
  t.same(await logIn(), [created('account_source')]);
  for (const [what, change, entries] of CHANGES) {
    account = { ...account, ...change };
    t.same(await logIn(), entries, what);
    t.same(await logIn(), [], `${what}: once`);
  }
  await directory.change({ users: [user('U2', { login: 'b@example.com' })] }, NOW);
  account = { ...account, login: 'b@example.com' };
  const other = { ...changed('login'), target: { ...target, user_id: 'U2' } };
  t.same(await logIn(), [changed('login'), other], 'a login that another user had');
}); // prettier-ignore
