import * as fc from 'fast-check';
import { loginKey } from '../../src/domain/user.js';
import { property } from '../helpers/property.js';

const texts = fc.string({ unit: 'binary', minLength: 1, maxLength: 12 });
const spaces = fc.constantFrom('', ' ', '\t', '\u3000', '\u00a0', '\u2003', '\ufeff', ' \n');

property('a login name has one normal form, which is stable', 10_000, texts, (login) => {
  const form = loginKey(login);
  if (loginKey(form) !== form) throw new Error(JSON.stringify(login));
});

property(
  'surrounding whitespace makes no difference to a name',
  5_000,
  fc.tuple(spaces, texts, spaces),
  ([a, login, b]) => {
    if (loginKey(a + login + b) !== loginKey(login)) throw new Error(JSON.stringify([a, login, b]));
  },
);
