import * as fc from 'fast-check';
import assert from 'node:assert';
import { inOnePiece, lineStart, MillisecondsMember, TextMember } from '../../src/observe/json-line.js';
import { property } from '../helpers/property.js';

/** What a parser makes of one member with its comma. */
const valueOf = (member: string): unknown =>
  (JSON.parse(`{"first":0${member}}`) as Record<string, unknown>).name;

property(
  'a text member is read as its value, whatever is in it',
  3_000,
  fc.oneof(fc.string(), fc.string({ unit: 'binary' }), fc.constantFrom('', '"', '\\', '\n', 'é', '\ud800', null)),
  (value) => {
    assert.strictEqual(valueOf(new TextMember('name').of(value)), value);
    // Half of a pair is no text that can be written; JSON escapes it.
    if (value !== null && !/\p{Surrogate}/u.test(value)) assert.strictEqual(inOnePiece(value), value);
    assert.strictEqual(inOnePiece(JSON.stringify(value)), JSON.stringify(value));
  },
); // prettier-ignore

property(
  'milliseconds are read with their microseconds',
  3_000,
  fc.oneof(
    fc.integer({ min: 0, max: 10_000_000 }),
    fc.double({ min: 0, max: 1e9, noNaN: true }).map((ms) => Math.floor(ms * 1000)),
  ),
  (micros) => assert.strictEqual(valueOf(new MillisecondsMember('name').of(micros / 1000)), micros / 1000),
);

property('a line begins with its own time', 1_000, fc.array(fc.integer({ min: 0, max: 4e12 })), (times) => {
  for (const now of times) {
    const { level, time, pid } = JSON.parse(`${lineStart(now)}}`) as Record<string, unknown>;
    assert.deepStrictEqual(
      { level, time, pid },
      { level: 30, time: new Date(now).toISOString(), pid: process.pid },
    );
  }
});
