import * as fc from 'fast-check';
import assert from 'node:assert';
import { LineBuffer } from '../../src/observe/json-line.js';
import { property } from '../helpers/property.js';

/** A part of a line, how it is added, and the text that it must become. */
const PIECE = fc.oneof(
  fc.string({ unit: 'binary', maxLength: 40 }).map((text) => ({
    add: (lines: LineBuffer) => lines.text(text),
    text: Buffer.from(text).toString(),
  })),
  fc.integer({ min: 1, max: 400_000 }).map((size) => ({
    add: (lines: LineBuffer) => lines.bytes(Buffer.alloc(size, 'x')),
    text: 'x'.repeat(size),
  })),
  fc.maxSafeNat().map((value) => ({
    add: (lines: LineBuffer) => lines.integer(value),
    text: String(value),
  })),
  fc.string({ maxLength: 40 }).map((value) => ({
    add: (lines: LineBuffer) => lines.json(value),
    text: JSON.stringify(value),
  })),
);

const LINE = fc.record({
  pieces: fc.array(PIECE, { maxLength: 6 }),
  isEnded: fc.boolean(),
  isTaken: fc.boolean(),
});

property(
  'returns each line as it was composed, whatever its size, and omits an unfinished one',
  300,
  fc.array(LINE, { maxLength: 12 }),
  (all) => {
    const lines = new LineBuffer();
    let expected = '';
    let taken = '';
    for (const { pieces, isEnded, isTaken } of all) {
      lines.begin();
      for (const piece of pieces) piece.add(lines);
      if (isEnded) {
        lines.end();
        expected += pieces.map((piece) => piece.text).join('');
      }
      assert.strictEqual(lines.length, Buffer.byteLength(expected.slice(taken.length)));
      if (isTaken) taken += lines.take().toString();
    }
    assert.strictEqual(taken + lines.take().toString(), expected);
    assert.strictEqual(lines.take().length, 0);
  },
);
