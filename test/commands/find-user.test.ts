import type { Command } from 'commander';
import t from 'tap';
import type { NamedBy } from '../../src/commands/terminal/options.js';
import { sessionCommand, tokenCommand, userCommand } from '../../src/commands/usage/accounts.js';
import { explainCommand, mintCommand } from '../../src/commands/usage/configuration.js';
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

t.test('a login that is the id of another user is refused, unless an option decides', async (t) => {
  const both = /1001 is the login of the user with the id 1002, and the id of the user with the login ann; add --login or --id/;
  const rows: [name: string, by: NamedBy, found: string | RegExp][] = [
    ['ann', {}, '1001'],
    ['1002', {}, '1002'],
    ['same', {}, 'same'],
    ['1001', {}, both],
    ['1001', { id: true }, '1001'],
    ['1001', { login: true }, '1002'],
    ['ann', { id: true }, /no user has the id ann/],
    ['1002', { login: true }, /no user has the login 1002/],
    ['nobody', {}, /no user has the login or id nobody/],
  ];
  for (const [name, by, found] of rows) {
    const finding = findUser(directory, name, by);
    if (typeof found === 'string') t.match(await finding, { id: found }, name);
    else await t.rejects(finding, found, name);
  }
}); // prettier-ignore

t.test('every command that takes a user has these options', (t) => {
  const commands = [userCommand(), tokenCommand(), sessionCommand()].flatMap(({ commands: of }) => of);
  const takesUser = (command: Command) =>
    command.registeredArguments.some((argument) => argument.name() === 'login') ||
    command.options.some(({ flags }) => /<login>/.test(flags));
  const taking = [...commands, explainCommand(), mintCommand()].filter(takesUser);
  t.equal(taking.length, 13);
  for (const command of taking) {
    const flags = command.options.map(({ long }) => long);
    t.ok(flags.includes('--login') && flags.includes('--id'), command.name());
  }
  t.end();
});
