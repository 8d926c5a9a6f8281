import * as fc from 'fast-check';
import t from 'tap';
import { NameCache } from '../../src/http/fields.js';
import { http2Fields } from '../../src/http/http2.js';
import { fieldsOfHttp2 } from '../../src/http/http2-fields.js';
import { NEVER_FORWARDED } from '../../src/http/protected-fields.js';
import { lastChunk, responseHead, UNFRAMED } from '../../src/http1/write.js';
import { responseHeaders, responseTrailers } from '../../src/upstream/response.js';
import { forEachRow } from '../helpers/table.js';
import { property } from '../helpers/property.js';

const SESSION = 'service.session';
const OWN = [SESSION, 'latchkey-login-'];
const through = (name: string, value: string, status = 200) =>
  responseHeaders(status, [name, value], [], OWN);

/** Characters that browsers skip or ignore before and after a cookie's name. */
const skipped = fc
  .array(fc.constantFrom(' ', '\t', '\x01', '\x0b', '\x0c', '\x1f', '\x7f', '\x85', '\xa0'), { maxLength: 3 })
  .map((characters) => characters.join(''));
const prefix = fc.constantFrom('', '__Host-', '__Secure-', '__Http-', '__Host-Http-');
const anyCase = (text: string, bits: number) =>
  Array.from(text, (each, i) => ((bits >> (i % 30)) & 1 ? each.toUpperCase() : each.toLowerCase())).join('');

property(
  "an upstream can set none of Latchkey's cookies in any spelling, and no cookie without a name",
  2_000,
  fc.tuple(
    skipped,
    prefix,
    fc.constantFrom(...OWN),
    skipped,
    fc.nat(),
    fc.constantFrom('=x', '=', '=x; Path=/', ' =x'),
  ),
  ([before, start, own, behind, bits, rest]) => {
    for (const value of [
      `${before}${anyCase(start + own, bits)}${behind}${rest}`,
      `${before}=${own}=evil`,
      `${before}${own}`,
      `${before}${own}; a=b`,
      `${before};${own}=evil`,
      `a=b; ${before}${own}=evil`,
      `a=b, ${before}${own}=evil`,
    ])
      for (const field of ['Set-Cookie', 'set-cookie', 'Set-Cookie2'])
        if (through(field, value).length > 0) throw new Error(JSON.stringify([field, value]));
  },
);

t.test('other cookies pass unchanged', (t) => {
  forEachRow(
    ['theme=dark', 'service.sessions=1', 'x.service.session=1; Path=/', '__Host-other=1', 'a==b', 'a=service.session=1', 'session=; Max-Age=0', 'a=b; Expires=Wed, 21 Oct 2026 07:28:00 GMT; HttpOnly', 'a="service.session=1"'],
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
  t.same(responseTrailers(['Clear-Site-Data', '"cookies"', 'Set-Cookie', 'service.session=x', 'Set-Cookie2', 'service.session=x', 'X-Sum', '1'], [], []), [['X-Sum', '1']]);
  t.end();
}); // prettier-ignore

const name = fc.oneof(
  fc.constantFrom(...NEVER_FORWARDED),
  fc.stringMatching(/^[a-z0-9!#$%&'*+.^_`|~-]{1,12}$/),
);

property(
  'whatever trailers an upstream sends, those for the client can be written in every version of HTTP',
  2_000,
  fc.array(fc.tuple(name, fc.nat()), { minLength: 1, maxLength: 8 }),
  (names) => {
    const trailers = responseTrailers(
      names.flatMap(([each, bits]) => [anyCase(each, bits), 'x']),
      [],
      [],
    ).flat();
    lastChunk(trailers);
    http2Fields(trailers);
  },
);

t.test('drops trailers that Connection lists (RFC 9110 7.6.1)', (t) => {
  forEachRow<[string[], string[]]>(
    [
      [[], ['X-Hop', 'X-End']],
      [['Connection', 'close'], ['X-Hop', 'X-End']],
      [['Connection', 'x-hop'], ['X-End']],
      [['CONNECTION', 'close, X-HOP'], ['X-End']],
      [['connection', 'a', 'X-A', 'x-hop', 'Connection', 'b , x-end,'], ['X-Hop']],
      [['connection', 'x-end', 'Connection', 'X-Hop'], []],
    ],
    ([head, kept]) => {
      const trailers = responseTrailers(['X-Hop', '1', 'X-End', '2'], head, []);
      t.same(trailers.map(([each]) => each), kept, head.join(' '));
    },
  );
  t.end();
}); // prettier-ignore

t.test('a response without a body has no length', (t) => {
  forEachRow([101, 103, 204, 304], (status) => {
    t.same(through('Content-Length', '5', status), [], `${status}`);
    t.same(through('Transfer-Encoding', 'chunked', status), [], `${status}`);
  });
  forEachRow([200, 206, 404], (status) => {
    for (const [sent, read] of [
      ['5', '5'],
      ['0', '0'],
      ['007', '7'],
      ['000', '0'],
    ] as const)
      t.same(through('Content-Length', sent, status), ['Content-Length', read], `${status}`);
  });
  forEachRow(['Content-Length', 'Transfer-Encoding'], (name) => {
    const value = name === 'Content-Length' ? '5' : 'chunked';
    t.same(through(name, value, 205), ['Content-Length', '0'], 'a 205 has no content');
  });
  t.end();
});

t.test('replaces CORS headers of the upstream where Latchkey handles CORS, and keeps them elsewhere', (t) => {
  const own = ['access-control-allow-origin', '*', 'Access-Control-Allow-Credentials', 'true', 'ACCESS-CONTROL-EXPOSE-HEADERS', 'X-A', 'Access-Control-Max-Age', '5', 'Access-Control-Allow-Private-Network', 'true'];
  const kept = ['X-A', 'Access-Control: no', 'Access_Control-Allow-Origin', '*'];
  const said = ['Access-Control-Allow-Origin', 'https://app.example'];
  const answer = (cors: { fields: string[]; varies: boolean } | null) => responseHeaders(200, [...own, ...kept], [], OWN, false, cors);
  t.same(answer(null), [...own, ...kept], 'untouched');
  t.same(answer({ fields: said, varies: false }), [...kept, ...said]);
  t.same(answer({ fields: [], varies: true }), [...kept, 'Vary', 'Origin'], 'an origin that is not allowed');
  t.same(responseTrailers(own.slice(0, 2), [], []), [own.slice(0, 2)]);
  t.same(responseTrailers([...own, 'X-Sum', '1'], [], [], true), [['X-Sum', '1']]);
  t.end();
}); // prettier-ignore

t.test('an upstream widens the scope of service workers only where they are allowed', (t) => {
  const raw = ['Service-Worker-Allowed', '/', 'service_worker_allowed', '/', 'X-A', 'b'];
  t.same(responseHeaders(200, raw, [], OWN, false), ['X-A', 'b']);
  t.same(responseHeaders(200, raw, [], OWN, true), raw);
  t.end();
});

t.test('adds Origin to Vary once, in the existing list', (t) => {
  forEachRow<[string[], string[]]>(
    [
      [[], ['Vary', 'Origin']],
      [['Vary', ''], ['Vary', 'Origin']],
      [['vary', 'Accept-Encoding'], ['vary', 'Accept-Encoding, Origin']],
      [['Vary', 'Accept', 'VARY', 'Cookie'], ['Vary', 'Accept', 'VARY', 'Cookie, Origin']],
      [['Vary', 'accept,ORIGIN ,Cookie'], ['Vary', 'accept,ORIGIN ,Cookie']],
      [['Vary', 'Origin', 'Vary', 'Accept'], ['Vary', 'Origin', 'Vary', 'Accept']],
      [['Vary', '*'], ['Vary', '*']],
      [['Vary', 'X-Origin'], ['Vary', 'X-Origin, Origin']],
      [['Connection', 'vary', 'Vary', 'Accept'], ['Vary', 'Origin']],
      [['Content-Type', 'text/javascript'], ['Content-Type', 'text/javascript', 'Vary', 'Service-Worker, Origin']],
    ],
    ([raw, expected]) => t.same(responseHeaders(200, raw, [], OWN, false, { fields: [], varies: true }), expected),
  );
  t.end();
}); // prettier-ignore

t.test('HTTP/2 fields are those of the list, also names that objects inherit', (t) => {
  const names = ['__proto__', 'constructor', 'tostring', 'hasownproperty', 'x-a'];
  const fields = http2Fields(names.flatMap((name) => [name, `of ${name}`]));
  t.same(
    Object.entries(fields),
    names.map((name) => [name, `of ${name}`]),
  );
  t.same(Object.keys(http2Fields([])), []);
  t.equal(http2Fields([])['constructor'], undefined);
  t.end();
});

const line = fc.tuple(
  fc.constantFrom('cookie', 'vary', 'x-a'),
  fc.stringMatching(/^(?:[!-~\xa0\xff](?:[ -~]*[!-~])?)?$/),
);

property(
  'several lines of one name become what every version of HTTP can carry',
  2_000,
  fc.array(line, { maxLength: 8 }).map((lines) => lines.flat()),
  (lines) => {
    const sent = Object.entries(http2Fields(lines)).flatMap(([name, values]) =>
      [values].flat().flatMap((value) => [name, value]),
    );
    const read = fieldsOfHttp2(lines, 1e6);
    if ('refusal' in read) throw new Error(read.refusal);
    for (const fields of [sent, read]) responseHead(200, '', fields, UNFRAMED);
  },
);

t.test('neither many nor long names of peers stay in memory', (t) => {
  const cache = new NameCache<number>();
  const known = (names: readonly string[]) => names.filter((name) => cache.get(name) !== undefined).length;
  const names = Array.from({ length: 5_000 }, (_, i) => `x-${i}`);
  for (const [i, name] of names.entries()) {
    cache.add(name, i);
    t.equal(cache.get(name), i);
  }
  t.ok(known(names) <= 2_000, 'the latest ones are known');
  const long = names.map((name) => name.padEnd(65, 'a'));
  for (const [i, name] of long.entries()) cache.add(name, i);
  t.equal(known(long), 0);
  t.end();
});
