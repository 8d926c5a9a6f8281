import { deepStrictEqual as same } from 'node:assert';
import * as fc from 'fast-check';
import t from 'tap';
import { parseUntrustedJson } from '../../src/util/json.js';
import { property } from '../helpers/property.js';

property('accepts and rejects the same texts as JSON.parse', 5_000, fc.oneof(fc.json(), fc.string()), (text) => {
  same(outcome(() => parseUntrustedJson(text)), outcome(() => JSON.parse(text)), text);
}); // prettier-ignore

t.test('accepts 64 levels of nesting and no more, however they are written', async (t) => {
  const rows = [['[', ']', 1], ['{"a":', '}', 1], ['[1,', ']', 1], ['[{"]}":"\\"",\n"b":', '}]', 2]] as const;
  for (const [open, close, levels] of rows) {
    const nested = (depth: number) => open.repeat(depth / levels) + '0' + close.repeat(depth / levels);
    t.same(parseUntrustedJson(nested(64)), JSON.parse(nested(64)));
    for (const end of ['', 'null', '"', '1', ']'])
      for (const depth of [66, 10_000, 60_000])
        t.throws(() => parseUntrustedJson(open.repeat(depth) + end), { name: 'RangeError', message: /deeper than 64 levels/ });
  }
}); // prettier-ignore

t.test('refuses a name that an object has twice, however it is written, if asked to', async (t) => {
  const limits = { values: Infinity, members: Infinity, distinct: true } as const;
  for (const text of ['{"a":1,"a":1}', '{"a":1,"\\u0061":null}', '[0,{"b":{"":[],"":{}}}]', '{"__proto__":1,"__proto__":2}', '{"1":1,"b":{},"1":":"}']) {
    t.throws(() => parseUntrustedJson(text, limits), { name: 'RangeError', message: /names a member twice/ }, text);
    t.same(parseUntrustedJson(text), JSON.parse(text), text);
  }
}); // prettier-ignore

property('accepts everything that serializes a value, which has each name once', 2_000, fc.json(), (text) => {
  const once = JSON.stringify(JSON.parse(text));
  same(parseUntrustedJson(once, { values: Infinity, members: Infinity, distinct: true }), JSON.parse(once), once);
}); // prettier-ignore

t.test('brackets in strings and next to each other are not nesting', async (t) => {
  for (const value of ['['.repeat(1_000), '\\"[{'.repeat(1_000), Array.from({ length: 1_000 }, () => [{}])])
    t.same(parseUntrustedJson(JSON.stringify(value)), value);
});

function outcome(run: () => unknown): unknown {
  try {
    return { value: run() };
  } catch (error) {
    return (error as Error).name;
  }
}
