import t from 'tap';
import { digestOf } from '../../src/domain/secret.js';
import { logoutRecords, logoutsOfLogin } from '../../src/domain/provider-logout.js';

const ISSUER = 'https://idp.example';

t.test('a logout ends a login after a change of name, and at sidecars of 0.1.0', async (t) => {
  const login = logoutsOfLogin({ name: 'sso', issuer: ISSUER }, 'U1', 's');
  const recordsOf = (name: string, issuer: string, sid: string) =>
    logoutRecords({ name, issuer }, { userId: undefined, sid }, 0, 0).map((record) => record.name);
  const ends = (names: readonly string[]) => names.some((name) => login.includes(name));
  t.ok(ends(recordsOf('renamed', ISSUER, 's')));
  t.notOk(ends(recordsOf('sso', ISSUER, 'other')));
  t.notOk(ends(recordsOf('other', 'https://other.example', 's')));
  const old = digestOf(JSON.stringify(['session', 'sso', 's']));
  t.ok(ends([old]), 'recorded by 0.1.0');
  t.ok(recordsOf('sso', ISSUER, 's').includes(old), 'read by 0.1.0');
});
