import t from 'tap';
import { asJson, relativeTime, renderList } from '../../src/commands/terminal/output.js';
import { printable } from '../../src/util/text.js';
import { forEachRow } from '../helpers/table.js';

const NOW = Date.UTC(2030, 0, 1);
const MINUTE = 60_000;
const DAY = 1_440 * MINUTE;

t.test('formats relative times', async (t) => {
  forEachRow(
    [
      [NOW, 'just now'],
      [NOW - 59_999, 'just now'],
      [NOW + 10, 'in a moment'],
      [NOW - MINUTE, '1 minute ago'],
      [NOW - 119 * MINUTE, '1 hour ago'],
      [NOW - 3 * 60 * MINUTE, '3 hours ago'],
      [NOW + 5 * DAY, 'in 5 days'],
      [NOW - 45 * DAY, '1 month ago'],
      [NOW + 800 * DAY, 'in 2 years'],
    ] as const,
    ([at, expected]) => t.equal(relativeTime(at, NOW), expected),
  );
});

t.test('client input neither moves the cursor nor reverses the text', async (t) => {
  forEachRow(
    [
      ['plain', 'plain'],
      ['Jos\u00e9 \u4f60\u597d', 'Jos\u00e9 \u4f60\u597d'],
      ['\u001b[2J\r\n', '\\u001b[2J\\u000d\\u000a'],
      ['a\u202eb\u2066c\u200f', 'a\\u202eb\\u2066c\\u200f'],
      ['\u009b31m', '\\u009b31m'],
    ] as const,
    ([text, expected]) => t.equal(printable(text), expected),
  );
});

t.test('aligns columns by display width; omits empty ones', async (t) => {
  const rows = [
    { name: '\u4f60\u597d', last_at: 'x' },
    { name: 'a', empty: '' },
    { name: 'Jose\u0301', last_at: 'y' },
  ];
  t.equal(
    await renderList(rows, ['name', 'empty', 'last_at']),
    'NAME  LAST\n\u4f60\u597d  x\na\nJose\u0301  y\n',
  );
  t.equal(await renderList([{ a: 'a\nb', b: 'c' }], ['a', 'b']), 'A         B\na\\u000ab  c\n');
});

t.test('JSON escapes misleading characters of clients', async (t) => {
  const value = { user_agent: '\u009b31m\u202e\u2028', list: ['\n\u0007'] };
  t.match(asJson(value), /^[\x20-\x7e\n]+$/);
  t.same(JSON.parse(asJson(value)), value);
  t.equal(asJson({ a: 1 }), '{\n  "a": 1\n}\n');
});
