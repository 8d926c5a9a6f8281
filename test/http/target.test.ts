import t from 'tap';
import { parseTarget } from '../../src/http/target.js';
import { forEachRow } from '../helpers/table.js';

t.test('targets that are refused whatever the routes are', async (t) => {
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
    ],
    (target) => t.type(parseTarget(target), 'string', JSON.stringify(target)),
  );
});

t.test('targets that pass, and whether there is one way to read them', async (t) => {
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
    ([target, path, query, plain]) => t.same(parseTarget(target), { path, query, plain }, target),
  );
});
