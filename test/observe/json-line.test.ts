import * as fc from 'fast-check';
import assert from 'node:assert';
import { LineBuffer, lineStart, MillisecondsMember, TextMember } from '../../src/observe/json-line.js';
import { printable } from '../../src/util/text.js';
import { property } from '../helpers/property.js';

/** Returns the value that a parser reads from one member with its comma. */
function valueOf(add: (line: LineBuffer) => void): unknown {
  const lines = new LineBuffer();
  lines.begin().text('{"first":0');
  add(lines);
  lines.text('}\n');
  lines.end();
  return (JSON.parse(lines.take().toString()) as Record<string, unknown>).name;
}

property(
  'a text member parses to its value, and invisible or misleading characters are escaped',
  3_000,
  fc.oneof(fc.string(), fc.string({ unit: 'binary' }), fc.constantFrom('', '"', '\\', '\n', 'é', '\u202e', '\ud800')),
  (value) => assert.strictEqual(valueOf((line) => new TextMember('name').add(line, value)), printable(value)),
); // prettier-ignore

property(
  'milliseconds keep their microseconds',
  3_000,
  fc.oneof(
    fc.integer({ min: 0, max: 10_000_000 }),
    fc.double({ min: 0, max: 1e9, noNaN: true }).map((ms) => Math.floor(ms * 1000)),
  ),
  (micros) =>
    assert.strictEqual(
      valueOf((line) => new MillisecondsMember('name').add(line, micros / 1000)),
      micros / 1000,
    ),
);

const starts = fc.tuple(
  fc.integer({ min: 0, max: 4e12 }),
  fc.constantFrom('number' as const, 'text' as const),
);
property(
  'a line begins with its own time, and its level in its own format',
  1_000,
  fc.array(starts),
  (lines) => {
    for (const [now, format] of lines) {
      const { level, time, pid } = JSON.parse(`${Buffer.from(lineStart(now, format)).toString()}}`) as Record<
        string,
        unknown
      >;
      assert.deepStrictEqual(
        { level, time, pid },
        { level: format === 'text' ? 'info' : 30, time: new Date(now).toISOString(), pid: process.pid },
      );
    }
  },
);
