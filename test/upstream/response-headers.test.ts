import * as fc from 'fast-check';
import t from 'tap';
import { responseHeaders, responseTrailers } from '../../src/upstream/response-headers.js';
import { forEachRow } from '../helpers/table.js';
import { property } from '../helpers/property.js';

const SESSION = 'service.session';
const through = (name: string, value: string, status = 200) =>
  responseHeaders(status, [name, value], [], SESSION);

/** Anything that browsers skip, or take for nothing, in front of a name and behind it. */
const skipped = fc
  .array(fc.constantFrom(' ', '\t', '\x01', '\x0b', '\x0c', '\x1f', '\x7f'), { maxLength: 3 })
  .map((characters) => characters.join(''));
const prefix = fc.constantFrom('', '__Host-', '__Secure-', '__Http-', '__Host-Http-');
const anyCase = (text: string, bits: number) =>
  Array.from(text, (each, i) => ((bits >> (i % 30)) & 1 ? each.toUpperCase() : each.toLowerCase())).join('');

property(
  'no spelling of the session cookie, and no cookie without a name, is set by an upstream',
  2_000,
  fc.tuple(skipped, prefix, skipped, fc.nat(), fc.constantFrom('=x', '=', '=x; Path=/', ' =x')),
  ([before, start, behind, bits, rest]) => {
    for (const value of [
      `${before}${anyCase(start + SESSION, bits)}${behind}${rest}`,
      `${before}=${SESSION}=evil`,
      `${before}${SESSION}`,
      `${before}${SESSION}; a=b`,
      `${before};${SESSION}=evil`,
    ])
      if (through('Set-Cookie', value).length > 0) throw new Error(JSON.stringify(value));
  },
);

t.test('other cookies pass as they are', (t) => {
  forEachRow(
    ['theme=dark', 'service.sessions=1', 'x.service.session=1; Path=/', '__Host-other=1', 'a==b', 'a=service.session=1', 'session=; Max-Age=0'],
    (value) => t.same(through('Set-Cookie', value), ['Set-Cookie', value]),
  ); // prettier-ignore
  t.end();
});

t.test('Clear-Site-Data does not end the session', (t) => {
  forEachRow<[string, string | undefined]>(
    [
      ['"cookies"', undefined],
      ['"*"', undefined],
      ['"Cookies"', undefined],
      ['cookies', undefined],
      ['*', undefined],
      [' "cookies" , "*"', undefined],
      ['"cache", "cookies"', '"cache"'],
      ['"cookies","cache","storage"', '"cache","storage"'],
      ['"cache", "*", "storage"', '"cache", "storage"'],
      ['"cookies";a=b, "cache"', '"cache"'],
      ['"cache", "storage"', '"cache", "storage"'],
    ],
    ([value, kept]) => {
      for (const name of ['Clear-Site-Data', 'clear-site-data', 'CLEAR-SITE-DATA'])
        t.same(through(name, value), kept === undefined ? [] : [name, kept], value);
    },
  );
  t.same(responseTrailers(['Clear-Site-Data', '"cookies"', 'Set-Cookie', 'service.session=x', 'X-Sum', '1'], []), [['X-Sum', '1']]);
  t.end();
}); // prettier-ignore

t.test('an answer that ends with its head has no length', (t) => {
  forEachRow([101, 103, 204, 304], (status) => {
    t.same(through('Content-Length', '5', status), [], `${status}`);
    t.same(through('Transfer-Encoding', 'chunked', status), [], `${status}`);
  });
  forEachRow([200, 205, 206, 404], (status) => {
    t.same(through('Content-Length', '5', status), ['Content-Length', '5'], `${status}`);
  });
  t.end();
});
