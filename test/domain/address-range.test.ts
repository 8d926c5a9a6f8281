import { BlockList, isIPv6 } from 'node:net';
import * as fc from 'fast-check';
import t from 'tap';
import { includesRanges, isInRanges, parseRange } from '../../src/util/addresses.js';
import { property, Share } from '../helpers/property.js';

const ranges = (...texts: string[]) =>
  texts.map((text) => parseRange(text) ?? (t.fail(`no range: ${text}`) as never));

t.test('matches addresses with ranges of their family, in any notation', async (t) => {
  for (const [range, inside, outside] of [
    ['10.0.0.0/8', ['10.0.0.0', '10.255.255.255', '::ffff:10.1.2.3', '::ffff:0a01:0203'], ['11.0.0.0', '::a01:203', '::10.1.2.3', '2002:a01:203::']],
    ['192.0.2.7', ['192.0.2.7', '::ffff:192.0.2.7', '::FFFF:c000:207'], ['192.0.2.8', '192.0.2.6']],
    ['192.0.2.128/25', ['192.0.2.128', '192.0.2.255'], ['192.0.2.127']],
    ['0.0.0.0/0', ['1.2.3.4', '::ffff:1.2.3.4'], ['::1', '2001:db8::1']],
    ['::/0', ['::1', '2001:db8::1', 'fe80::1%eth0'], ['1.2.3.4', '::ffff:1.2.3.4']],
    ['::ffff:10.0.0.0/104', ['10.1.2.3', '::ffff:10.1.2.3'], ['11.1.2.3', '::1']],
    ['2001:db8::/33', ['2001:db8:7fff::1', '2001:0DB8::'], ['2001:db8:8000::', '2001:db7::']],
    ['fe80::/10', ['fe80::1%eth0', 'febf::'], ['fec0::']],
  ] as const) {
    for (const address of inside) t.equal(isInRanges(ranges(range), address), true, `${address} in ${range}`);
    for (const address of [...outside, '', 'unknown', '10.0.0', '10.0.0.1:80', '[::1]'])
      t.equal(isInRanges(ranges(range), address), false, `${address} not in ${range}`);
  }
  t.equal(isInRanges(ranges('10.0.0.0/8', '::1'), '::1'), true);
  t.equal(isInRanges([], '::1'), false);
}); // prettier-ignore

t.test('rejects malformed ranges, and ranges with host bits that may be meant as addresses', async (t) => {
  for (const text of ['', '/', '10.0.0.0/', '10.0.0.0/33', '10.0.0.0/-1', '10.0.0.0/08', '10.0.0.0/8/8', '10.1.2.3/8', '10.0.0.0/255.0.0.0', '10.0.0', '010.0.0.1', 'localhost', 'fe80::1%eth0', '2001:db8::1/32', '::/129', '::ffff:0:0/95', ' 10.0.0.0/8', '10.0.0.0/8 ', '*', '10.*', '[::1]', '10.0.0.0/8,::1'])
    t.equal(parseRange(text), undefined, JSON.stringify(text));
}); // prettier-ignore

const inside = new Share();
const v4 = fc.ipV4();
const v6 = fc.ipV6().filter((text) => isIPv6(text) && !/^[0:]*ffff:/i.test(text));
const cases = fc.oneof(
  fc.record({ address: v4, near: v4, bits: fc.integer({ min: 0, max: 32 }), same: fc.boolean() }),
  fc.record({ address: v6, near: v6, bits: fc.integer({ min: 0, max: 128 }), same: fc.boolean() }),
);

property('ranges match those of node:net', 20_000, cases, ({ address, near, bits, same }) => {
  const family = isIPv6(address) ? 'ipv6' : 'ipv4';
  const list = new BlockList();
  list.addSubnet(address, bits, family);
  const whole = parseRange(address);
  if (whole === undefined) throw new Error('an address is a range of one');
  const bytes = whole.bytes.map((byte, i) => byte & ~(0xff >> Math.min(8, Math.max(0, bits - i * 8))));
  const candidate = same ? address : near;
  const expected = list.check(candidate, family);
  inside.note(expected);
  if (isInRanges([{ bytes, bits }], candidate) !== expected) throw new Error(`${candidate} in ${address}/${bits}`);
  const isNetwork = bytes.every((byte, i) => byte === whole.bytes[i]);
  if ((parseRange(`${address}/${bits}`) !== undefined) !== isNetwork) throw new Error('a range is written by its first address');
}); // prettier-ignore

t.test('the property above covers both outcomes', async (t) => {
  t.ok(inside.exceeds(0.2) && inside.part < 0.9, String(inside.part));
});

const rangeOf = fc.oneof(
  fc.tuple(v4, fc.integer({ min: 0, max: 32 })),
  fc.tuple(v6, fc.integer({ min: 0, max: 128 })),
);
const withinCases = fc.record({
  wide: fc.array(rangeOf, { maxLength: 3 }),
  narrow: rangeOf,
  address: fc.oneof(v4, v6),
});

/** The range of an address and a prefix length, with the host bits cleared. */
function cut([address, bits]: [string, number]) {
  const bytes = parseRange(address)?.bytes ?? [];
  return {
    bytes: bytes.map((byte, i) => byte & ~(0xff >> Math.min(8, Math.max(0, bits - i * 8))) & 0xff),
    bits,
  };
}

property('a range included in others has no address that they lack', 20_000, withinCases, ({ wide, narrow, address }) => {
  const [others, one] = [wide.map(cut), cut(narrow)];
  if (!includesRanges(others, one)) return;
  if (isInRanges([one], address) && !isInRanges(others, address)) throw new Error('wider');
}); // prettier-ignore

t.test('ranges included in ranges', async (t) => {
  const includes = (wide: string[], narrow: string) => includesRanges(ranges(...wide), ranges(narrow)[0] as never);
  for (const [wide, narrow] of [[['10.0.0.0/8'], '10.1.0.0/16'], [['10.0.0.0/8'], '10.0.0.0/8'], [['::1', '10.0.0.0/8'], '10.1.2.3'], [['0.0.0.0/0'], '192.0.2.7']] as const)
    t.equal(includes([...wide], narrow), true, `${narrow} in ${wide.join()}`);
  for (const [wide, narrow] of [[['10.1.0.0/16'], '10.0.0.0/8'], [['10.0.0.0/8'], '11.0.0.0/16'], [['10.0.0.0/8'], '::1'], [['0.0.0.0/0'], '::/0'], [[], '::1']] as const)
    t.equal(includes([...wide], narrow), false, `${narrow} not in ${wide.join()}`);
}); // prettier-ignore
