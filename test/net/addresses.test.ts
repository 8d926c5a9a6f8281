import { assert, double, integer, ipV4, property } from 'fast-check';
import type { LookupAddress } from 'node:dns';
import t from 'tap';
import { readRetryAfter } from '../../src/webhooks/deliver.js';
import { backoff } from '../../src/webhooks/sender.js';
import { kindOfAddress, pinnedLookup, refuseLiteral } from '../../src/net/pinned-lookup.js';
import { forEachRow } from '../helpers/table.js';

t.test('decides which addresses may be connected to', async (t) => {
  const kinds = {
    public: ['1.1.1.1', '8.8.8.8', '172.15.255.255', '172.32.0.0', '100.63.255.255', '100.128.0.0', '169.253.255.255', '2606:4700::1111', '::ffff:1.1.1.1', '64:ff9b::101:101'],
    private: ['127.0.0.1', '127.255.255.255', '10.0.0.1', '172.16.0.1', '172.31.255.255', '192.168.1.1', '100.64.0.1', '100.127.255.255', '198.18.0.1', '100.100.100.201', '::1', 'fd00:ec1::254', 'fd20:ce::253', 'fc00::1', 'fdff::1',
      '::ffff:127.0.0.1', '::ffff:a00:1', '64:ff9b::7f00:1', '64:ff9b::10.0.0.1'],
    reserved: ['0.0.0.0', '0.1.2.3', '169.254.169.254', '192.0.0.1', '192.0.2.1', '198.51.100.1', '203.0.113.9', '192.88.99.1', '224.0.0.1', '239.1.1.1', '240.0.0.1', '255.255.255.255',
      '::', '::7f00:1', '::127.0.0.1', 'fe80::1', 'fe80::1%eth0', 'fec0::1', 'ff02::1', '64:ff9b:1::1', '100::1', '2001::1', '2001:db8::1', '2002:7f00:1::', '2002:a00:1::1', '3fff::1', '5f00::1',
      '::ffff:169.254.169.254', '64:ff9b::a9fe:a9fe', '::ffff:0:127.0.0.1', 'fd00:ec2::254', 'fd20:ce::254', '100.100.100.200', '::ffff:100.100.100.200', '168.63.129.16', '64:ff9b::a83f:8110', '', 'host', '1.2.3', '1.1.1.1%0'],
  } as const; // prettier-ignore
  const rows = Object.entries(kinds).flatMap(([kind, addresses]) =>
    addresses.map((address) => ({ address, kind })),
  );
  forEachRow(rows, ({ address, kind }) => t.equal(kindOfAddress(address), kind, address));
});

t.test('judges an IPv4 address the same in every form that embeds it', async (t) => {
  assert(
    property(ipV4(), (address) => {
      const hex = address
        .split('.')
        .map((byte) => Number(byte).toString(16).padStart(2, '0'))
        .join('');
      const groups = `${hex.slice(0, 4)}:${hex.slice(4)}`;
      for (const prefix of ['::ffff:', '0:0:0:0:0:ffff:', '64:ff9b::', '64:FF9B:0:0:0:0:'])
        for (const form of [address, groups])
          if (kindOfAddress(prefix + form) !== kindOfAddress(address))
            throw new Error(`${prefix}${form} is ${kindOfAddress(prefix + form)}`);
    }),
  );
  t.pass('property');
});

const lookUp = async (found: readonly LookupAddress[], allowPrivate: boolean, all = true) =>
  new Promise<unknown>((resolve, reject) => {
    const lookup = pinnedLookup(async () => found, allowPrivate);
    lookup('hook.example', { all }, (error, address) => (error ? reject(error) : resolve(address)));
  });
const four = (address: string) => ({ address, family: 4 });

t.test('refuses a name if any of its addresses may not be connected to', async (t) => {
  t.same(await lookUp([four('1.1.1.1')], false), [four('1.1.1.1')]);
  t.equal(await lookUp([four('1.1.1.1'), four('8.8.8.8')], false, false), '1.1.1.1');
  await t.rejects(lookUp([four('1.1.1.1'), four('10.0.0.1')], false), { message: 'the address 10.0.0.1 is private; allow_private allows it' });
  t.same(await lookUp([four('10.0.0.1')], true), [four('10.0.0.1')]);
  await t.rejects(lookUp([four('169.254.169.254')], true), { message: /is reserved/ }, 'whatever is allowed');
  await t.rejects(lookUp([], true), { message: /no address/ });
  for (const host of ['127.0.0.1', '[::1]', '[::ffff:7f00:1]']) {
    t.throws(() => refuseLiteral(new URL(`https://${host}/`).hostname, false), { message: /is private/ }, host);
    refuseLiteral(new URL(`https://${host}/`).hostname, true);
  }
  for (const written of ['0x7f.1', '2130706433', '0177.0.0.1', '127.1'])
    t.throws(() => refuseLiteral(new URL(`https://${written}/`).hostname, false), { message: /127\.0\.0\.1 is private/ }, written);
  refuseLiteral('hook.example', false);
}); // prettier-ignore

t.test('waits double up to six hours, with jitter, unless the endpoint names one', async (t) => {
  t.same([1, 2, 3, 11, 15, 16, 100].map((failures) => backoff(failures, null, 1)), [1_000, 2_000, 4_000, 1_024_000, 16_384_000, 21_600_000, 21_600_000]);
  t.equal(backoff(3, null, 0), 3_000);
  assert(
    property(integer({ min: 1, max: 100 }), double({ min: 0, max: 0.999, noNaN: true }), (failures, random) => {
      const wait = backoff(failures, null, random);
      return wait >= 750 && wait <= 21_600_000 && wait <= backoff(failures, null, 1);
    }),
  );
  t.same([backoff(9, 5_000), backoff(1, 0), backoff(1, 10 ** 12)], [5_000, 1_000, 21_600_000]);
  const total = Array.from({ length: 19 }, (_, i) => backoff(i + 1, null, 1)).reduce((sum, wait) => sum + wait);
  t.ok(total > 32 * 3_600_000 && total < 34 * 3_600_000, 'twenty attempts take about 33 hours');
  t.same(['0', '17', '-1', '1.5', 'soon', '', '9999999999'].map((field) => readRetryAfter(field, 0)), [0, 17_000, null, null, null, null, null]);
  t.equal(readRetryAfter(undefined, 0), null);
  t.equal(readRetryAfter('Thu, 01 Jan 1970 00:00:09 GMT', 2_000), 7_000);
  t.equal(readRetryAfter('Thu, 01 Jan 1970 00:00:09 GMT', 20_000), 0);
}); // prettier-ignore
