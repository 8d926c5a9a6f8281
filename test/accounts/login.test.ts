import t from 'tap';
import type { Accounts, Checked, Proof } from '../../src/accounts/stored-accounts.js';
import { type Grant, Logins } from '../../src/accounts/login.js';
import type { Attempted, LoginThrottle } from '../../src/accounts/login-throttle.js';
import type { User } from '../../src/domain/user.js';

const user = { id: 'U1', customerId: 'C1', login: 'a@example.com' } as User;
const namesake = { ...user, id: 'U2' };
const accounts: Partial<Accounts> = {
  queue: { run: async (_network, work) => work() },
  find: async () => undefined,
  check: async () => ({ verdict: 'right', user, otp: 'accepted' }),
  loggedIn: async () => undefined,
};
const throttle: Partial<LoginThrottle> = {
  look: async () => ({ wait: 0, known: false }),
  reserve: async () => ({ settle: async () => undefined, nextWait: async () => 0 }),
};
const logins = new Logins(accounts as Accounts, throttle as LoginThrottle, () => undefined);

t.test('a right password has its audit entries, whatever follows it', async (t) => {
  const refused = { refusal: 'not_found', detail: 'x', auditEvents: [{ event: 'token.created', outcome: 'unknown' }] } as const;
  const rows: [what: string, caller: User | undefined, grant: Grant<object>, after: string[]][] = [
    ['granted', user, async () => ({}), []],
    ['refused', undefined, async () => refused, ['token.created']],
    ['the login name is now that of another user', namesake, async () => ({}), []],
  ];
  for (const [what, caller, grant, after] of rows) {
    const attempt = { login: user.login, password: 'x', otp: '123456', address: '127.0.0.1', caller };
    const { auditEvents = [] } = await logins.check(attempt, 400, grant);
    t.same(auditEvents.map(({ event }) => event), ['login.succeeded', 'otp.accepted', ...after], what);
  }
}); // prettier-ignore

t.test('the next wait is that of what stays counted', async (t) => {
  const rows: [checked: Checked, settled: string, asks: boolean, first?: string][] = [
    [{ verdict: 'wrong', user }, 'wrong_password', true],
    [{ verdict: 'wrong', user: null }, 'wrong_password', true],
    [{ verdict: 'locked', user }, 'right_password', false],
    [{ verdict: 'needs_otp', user, otp: 'missing' }, 'right_password', false],
    [{ verdict: 'needs_otp', user, otp: 'wrong' }, 'wrong_code', true],
    [{ verdict: 'needs_otp', user, otp: 'used' }, 'wrong_code', true],
    [{ verdict: 'right', user, otp: null }, 'wrong_password', true, 'succeeded'],
  ];
  for (const [checked, settled, asks, ...first] of rows) {
    const calls: string[] = [];
    const reservation = {
      settle: async (outcome: string) => void calls.push(outcome),
      nextWait: async () => calls.push('wait') && 0,
    };
    const checking = { ...accounts, check: async () => checked } as Accounts;
    const counting = { ...throttle, reserve: async () => reservation } as unknown as LoginThrottle;
    const attempt = { login: user.login, password: 'x', otp: '123456', address: '127.0.0.1' };
    await new Logins(checking, counting, () => undefined).check(attempt, 400, async () => 'owner_changed');
    t.same(calls, [...first, settled, ...(asks ? ['wait'] : [])], JSON.stringify(checked));
  }
});

t.test('a blank one-time password is none', async (t) => {
  const given: unknown[] = [];
  const checking = {
    ...accounts,
    check: async ({ otp }: Proof) => (given.push(otp), { verdict: 'wrong', user }),
  };
  const noting = {
    ...throttle,
    look: async ({ hasCode }: Attempted) => (given.push(hasCode), { wait: 0, known: false }),
  };
  for (const otp of [undefined, '', ' \t', ' 123456 ']) {
    const attempt = { login: user.login, password: 'x', otp, address: '127.0.0.1' };
    const tried = new Logins(checking as Accounts, noting as unknown as LoginThrottle, () => undefined);
    await tried.check(attempt, 400, async () => null);
  }
  t.same(given, [false, undefined, false, undefined, false, undefined, true, '123456']);
});
