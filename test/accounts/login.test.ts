import t from 'tap';
import type { Accounts } from '../../src/accounts/accounts.js';
import { type Grant, Logins } from '../../src/accounts/login.js';
import type { LoginThrottle } from '../../src/accounts/login-throttle.js';
import type { User } from '../../src/domain/user.js';

const user = { id: 'U1', customerId: 'C1', login: 'a@example.com' } as User;
const namesake = { ...user, id: 'U2' };
const accounts: Partial<Accounts> = {
  enqueue: async (work) => work(),
  check: async () => ({ verdict: 'right', user, otp: 'accepted' }),
  loggedIn: async () => undefined,
};
const throttle: Partial<LoginThrottle> = {
  secondsToWait: async () => 0,
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
