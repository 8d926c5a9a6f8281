import type { Socket } from 'node:net';
import t from 'tap';
import { createClientReader } from '../../src/http/client-address.js';
import { forEachRow } from '../helpers/table.js';

const socket = (remoteAddress: string, more: object = {}) =>
  ({ remoteAddress, ...more }) as unknown as Socket;
const FORWARDED = [
  'X-Forwarded-For',
  '6.6.6.6, 203.0.113.7, 10.0.0.2',
  'x-forwarded-proto',
  'https',
  'X-Forwarded-Host',
  'api.example.com',
];

t.test('without trusted proxies nobody is believed', async (t) => {
  const read = createClientReader([]);
  t.same(read(socket('::ffff:10.0.0.1'), 'host', FORWARDED), {
    address: '10.0.0.1',
    secure: false,
    host: 'host',
    proxied: false,
    forwardedFor: '10.0.0.1',
  });
  t.equal(read(socket('::1', { encrypted: true }), 'host', []).secure, true);
});

t.test('behind trusted proxies the client is the last address that none of them is', async (t) => {
  const read = createClientReader(['10.0.0.0/8', '2001:db8::/32', '192.0.2.1']);
  const of = (peer: string, forwarded: string) => {
    const { address, forwardedFor } = read(socket(peer), 'host', ['X-Forwarded-For', forwarded]);
    return [address, forwardedFor];
  };
  t.same(read(socket('10.0.0.1'), 'host', FORWARDED), {
    address: '203.0.113.7',
    secure: true,
    host: 'api.example.com',
    proxied: true,
    forwardedFor: '203.0.113.7, 10.0.0.2, 10.0.0.1',
  });
  forEachRow(
    [
      ['203.0.113.9', '1.1.1.1', '203.0.113.9', '203.0.113.9'],
      ['10.0.0.1', '1.1.1.1', '1.1.1.1', '1.1.1.1, 10.0.0.1'],
      ['192.0.2.1', '6.6.6.6,1.1.1.1', '1.1.1.1', '1.1.1.1, 192.0.2.1'],
      ['::ffff:10.0.0.1', '2001:db8::5, ::ffff:10.9.9.9', '2001:db8::5', '2001:db8::5, 10.9.9.9, 10.0.0.1'],
      ['10.0.0.1', '', '10.0.0.1', '10.0.0.1'],
      ['10.0.0.1', 'not an address', '10.0.0.1', '10.0.0.1'],
    ] as const,
    ([peer, forwarded, address, chain]) =>
      t.same(of(peer, forwarded), [address, chain], `${peer} ${forwarded}`),
  );
});
