import t from 'tap';
import { logoutRecords, logoutsOfLogin } from '../../src/domain/session.js';

const ISSUER = 'https://idp.example';

t.test('a logout ends the login of its issuer and session, whatever the provider is called', async (t) => {
  const login = logoutsOfLogin(ISSUER, 'U1', 's');
  const ends = (issuer: string, sid: string) =>
    logoutRecords(issuer, { userId: undefined, sid }, 0, 0).some(({ name }) => login.includes(name));
  t.ok(ends(ISSUER, 's'));
  t.notOk(ends(ISSUER, 'other'));
  t.notOk(ends('https://other.example', 's'));
});
