import * as fc from 'fast-check';
import t from 'tap';
import { ownPath } from '../../src/domain/path.js';
import { ownPath as ownPathOfPage } from '../../src/ui/address.js';
import { property } from '../helpers/property.js';

const ORIGIN = 'https://api.example';
const PAGE = `${ORIGIN}/_latchkey/?x=y`;

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
    path.map((rest) => `${ORIGIN}/${rest}`),
    path.map((rest) => `${ORIGIN}${rest}`),
  ),
  (text) => {
    const accepted = ownPath(text, ORIGIN);
    if (accepted !== ownPathOfPage(text, ORIGIN)) throw new Error('the page and the server differ');
    if (accepted === undefined) return;
    if ((accepted !== text && ORIGIN + accepted !== text) || !/^\/(?![/\\])/.test(accepted))
      throw new Error('not a path');
    if (new URL(accepted, PAGE).origin !== ORIGIN) throw new Error('another origin');
  },
);

t.test('accepts ordinary paths and refuses others', async (t) => {
  for (const good of ['/', '/a', '/a/b?c=/d&e=%2F#f', '/a//b', '/.//a', '/~x;y=1'])
    for (const text of [good, ORIGIN + good]) t.same([ownPath(text, ORIGIN), ownPathOfPage(text, ORIGIN)], [good, good], text);
  const bad = [ORIGIN, `${ORIGIN}//a`, `${ORIGIN}:8443/a`, `${ORIGIN}.evil.example/a`, 'https://evil.example/', '', 'a', '//a', '/\\a', '/a\\b', '/a b', '/\ta', '/a\n', '/é', `/${'a'.repeat(2048)}`];
  for (const each of bad) t.same([ownPath(each, ORIGIN), ownPathOfPage(each, ORIGIN)], [undefined, undefined], each);
  const longest = `/${'a'.repeat(2_047)}`;
  t.same([ownPath(longest, ORIGIN), ownPathOfPage(longest, ORIGIN)], [longest, longest]);
  t.same([ownPath(undefined), ownPath(`${ORIGIN}/`)], [undefined, undefined], 'without an origin of its own');
}); // prettier-ignore
