import t from 'tap';
import { parseTarget, type Target } from '../../src/domain/path.js';
import { forEachRow } from '../helpers/table.js';

t.test('refuses some targets independent of the routes', async (t) => {
  forEachRow(
    [
      '',
      '*',
      'service/SVC1',
      'http://evil.example/x',
      '@evil.example/',
      '/a\\b',
      '/a%5cb',
      '/a%5Cb',
      '/a%00',
      '/a%0d%0ab',
      '/a%7f',
      '/a%1Fb',
      '/a%',
      '/a%4',
      '/a%zz',
      '/a#b',
      '/a?b#c',
      '/a b',
      '/a\tb',
      '/a\u00ff',
      '/a?x=\u00e9',
      '/a/../b',
      '/a/..',
      '/./a',
      '/.',
      '/a/%2e%2e/b',
      '/a/.%2E/b',
      '/a/..%2fb',
      '/a%2f..%2fb',
      '/a/..;x=1/b',
      '/a/.;/b',
      '/a/%2e;v=1%2fb',
      '/a/%u002e%u002e/b',
      '/a%C2%85b',
      '/a%C2%9fb',
    ],
    (target) => t.type(parseTarget(target), 'string', JSON.stringify(target)),
  );
});

t.test('refuses bytes that are not UTF-8, which lenient decoders turn into characters', async (t) => {
  const dots = [
    '%c0%ae%c0%ae',
    '%e0%80%ae%e0%80%ae',
    '%f0%80%80%ae',
    '%f8%80%80%80%ae',
    '%fc%80%80%80%80%ae',
    '.%c0%ae',
  ];
  const separators = ['%c0%af', '%e0%80%af', '%f0%80%80%af', '%c1%9c', '%c1%af', '%e0%81%9c'];
  const stray = [
    '%80',
    '%bf',
    '%c3',
    '%c3x',
    '%c3/%a9',
    '%e6%97',
    '%ff',
    '%fe',
    '%ed%a0%80',
    '%ed%bf%bf',
    '%f4%90%80%80',
    '%f5%80%80%80',
    '%C3%25A9',
  ];
  forEachRow([...dots, ...separators, ...stray], (bytes) => {
    forEachRow([`/${bytes}`, `/a/${bytes}/b`, `/purge/http://x/${bytes}`, `/a${bytes}?x`], (target) =>
      t.match(parseTarget(target), 'UTF-8', target),
    );
  });
  t.type(parseTarget('/a?x=%c0%ae'), 'object', 'ignored in the query');
});

t.test('refuses lookalikes of dot segments, backslashes and escapes', async (t) => {
  forEachRow(
    [
      '．．', '．', '.．', '․․', '‥', '。。', '.。', '｡｡', '﹒﹒', '..；x', '．．;x', '..？', '．．＃x', '.\u200b.', '.\u00ad．', '．\ufe0f．',
      '＼', 'a＼b', 'a﹨b', '∖', '⧵', 'a／..', '..／a', '..∕a', 'a⁄．．', '％2e', '％２ｅ', '٪2e', '﹪ａＦ', '％a\u0101',
    ],
    (text) => t.type(parseTarget(`/a/${encodeURIComponent(text).replaceAll('%2F', '/')}/b`), 'string', text),
  ); // prettier-ignore
});

t.test('accepts paths of every language', async (t) => {
  forEachRow(
    [
      'café', 'café', '日本', '今日は。', 'なぜ？', '１００％達成', 'ﾊﾟｽ', 'Łódź', 'Ελλάδα', 'Москва', 'עִבְרִית', 'العربية', 'हिन्दी', '한국', '한국',
      'naïve—dash', '👩‍👩‍👧', 'ﬁle', 'Ｗide', 'a…b', 'wait…', 'x²', '½', '€', '№5', '𝒳', '\u{10ffff}',
    ],
    (text) => t.type(parseTarget(`/a/${encodeURIComponent(text)}`), 'object', text),
  ); // prettier-ignore
});

t.test('accepts valid targets, and knows whether they have only one reading', async (t) => {
  forEachRow(
    [
      ['/', '/', '', true],
      ['/service/SVC1/version/1', '/service/SVC1/version/1', '', true],
      ['/a?next=//a/../b&x=%2e%2e%2f%zz\\', '/a', 'next=//a/../b&x=%2e%2e%2f%zz\\', true],
      ['/a?', '/a', '', true],
      ['/a/b.c/..d', '/a/b.c/..d', '', false],
      ['/a.b', '/a.b', '', true],
      ['/a%20b%C3%A9', '/a%20b%C3%A9', '', false],
      ['/a//b', '/a//b', '', false],
      ['/a/', '/a/', '', false],
      ['/a;b', '/a;b', '', false],
      ['/a%2Fb', '/a%2Fb', '', false],
      ['/%252e%252e/x', '/%252e%252e/x', '', false],
    ] as const,
    ([target, path, query, plain]) => {
      const parsed = parseTarget(target) as Target;
      t.same([parsed.path, parsed.query, parsed.readings === null], [path, query, plain], target);
    },
  );
});
