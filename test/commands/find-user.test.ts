import t from 'tap';
import { findUser } from '../../src/commands/with-store.js';
import { user } from '../store/contract/records.js';

const USERS = [
  user('1001', { login: 'ann' }),
  user('1002', { login: '1001' }),
  user('same', { login: 'Same' }),
];
const directory = {
  getUser: (wanted: string) => USERS.find(({ id }) => id === wanted),
  getUserByLogin: (wanted: string) => USERS.find(({ login }) => login.toLowerCase() === wanted.toLowerCase()),
};

t.test('a login that is the id of another user is refused', async (t) => {
  const both = /1001 is the login of the user with the id 1002, and the id of the user with the login ann; write 1002 or ann instead/;
  const rows: [name: string, found: string | RegExp][] = [
    ['ann', '1001'],
    ['1002', '1002'],
    ['same', 'same'],
    ['1001', both],
    ['nobody', /no user has the login or id nobody/],
  ];
  for (const [name, found] of rows) {
    const finding = findUser(directory, name);
    if (typeof found === 'string') t.match(await finding, { id: found }, name);
    else await t.rejects(finding, found, name);
  }
}); // prettier-ignore
