import * as fc from 'fast-check';
import t from 'tap';
import { ownPath } from '../../src/domain/path.js';
import { ownPath as ownPathOfPage } from '../../src/ui/address.js';
import { property } from '../helpers/property.js';

const PAGE = 'https://api.example/_latchkey/?x=y';

/** Prefixes and fragments that browsers parse in special ways. */
const piece = fc.oneof(
  fc.constantFrom('/', '//', '\\', '/\\', '\t', '\n', '\r', '\0', ' ', '@', ':', 'https:', 'javascript:', '.', '..'),
  fc.constantFrom('%2f', '%5c', '%09', '?', '#', ';', 'evil.example', '\u00a0', '\u2028', '\uff0f', '\u3002', 'é'),
  fc.string({ maxLength: 4 }),
); // prettier-ignore
const path = fc.array(piece, { maxLength: 8 }).map((parts) => parts.join(''));

property(
  'an accepted path leads to the same origin in every browser',
  20_000,
  fc.oneof(
    path,
    path.map((rest) => `/${rest}`),
  ),
  (text) => {
    const accepted = ownPath(text);
    if (accepted !== ownPathOfPage(text)) throw new Error('the page and the server differ');
    if (accepted === undefined) return;
    if (accepted !== text || !/^\/(?![/\\])/.test(text)) throw new Error('not a path');
    if (new URL(accepted, PAGE).origin !== 'https://api.example') throw new Error('another origin');
  },
);

t.test('accepts ordinary paths and refuses others', async (t) => {
  for (const good of ['/', '/a', '/a/b?c=/d&e=%2F#f', '/a//b', '/.//a', '/~x;y=1'])
    t.same([ownPath(good), ownPathOfPage(good)], [good, good]);
  const bad = ['', 'a', '//a', '/\\a', '/a\\b', '/a b', '/\ta', '/a\n', '/é', 'https://api.example/a', `/${'a'.repeat(2048)}`];
  for (const each of bad) t.same([ownPath(each), ownPathOfPage(each)], [undefined, undefined], each);
  t.equal(ownPath(undefined), undefined);
}); // prettier-ignore
