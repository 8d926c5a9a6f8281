import type { Socket } from 'node:net';
import t from 'tap';
import { createClientReader, isTrustedProxy } from '../../src/http/client-address.js';
import type { Client } from '../../src/http/head.js';
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
  'X-Forwarded-Port',
  '8443',
  'X-Forwarded-Prefix',
  '/team/',
];

function clientOf(read: ReturnType<ReturnType<typeof createClientReader>>): Client {
  if (typeof read === 'string') throw new Error(read);
  return read;
}

t.test('ignores forwarding headers without trusted proxies', async (t) => {
  const read = createClientReader([]);
  t.same(read(socket('::ffff:10.0.0.1'), 'host', FORWARDED), {
    address: '10.0.0.1',
    secure: false,
    host: 'host',
    proxied: false,
    behindTrustedProxy: false,
    forwardedFor: '10.0.0.1',
    port: '',
    prefix: '',
  });
  t.equal(clientOf(read(socket('::1', { encrypted: true }), 'host', [])).secure, true);
  const odd = ['X-Forwarded-Proto', 'gopher', 'X-Forwarded-Host', 'a b'];
  t.equal(clientOf(read(socket('10.0.0.1'), 'host', odd)).host, 'host', 'ignored headers may be invalid');
});

t.test('a peer is a trusted proxy by its address alone', async (t) => {
  const read = createClientReader(['10.0.0.0/8']);
  const peers = ['10.0.0.1', '::ffff:10.0.0.1', '203.0.113.7', ''];
  t.same(
    peers.map((peer) => isTrustedProxy(read, socket(peer))),
    [true, true, false, false],
  );
  t.notOk(isTrustedProxy(createClientReader([]), socket('10.0.0.1')));
});

t.test('refuses a client without an address, whoever is trusted', async (t) => {
  for (const trusted of [[], ['10.0.0.0/8'], ['0.0.0.0/0', '::/0']])
    for (const address of [undefined, '', '::ffff:'])
      for (const fields of [[], FORWARDED]) {
        const client = createClientReader(trusted)({ remoteAddress: address }, 'host', fields);
        t.equal(
          client,
          'the client disconnected before its address was known',
          `${address} ${trusted.join()}`,
        );
      }
});

t.test('behind trusted proxies, the client is the last address that is not one of them', async (t) => {
  const read = createClientReader(['10.0.0.0/8', '2001:db8::/32', '192.0.2.1']);
  const of = (peer: string, forwarded: string) => {
    const { address, forwardedFor } = clientOf(read(socket(peer), 'host', ['X-Forwarded-For', forwarded]));
    return [address, forwardedFor];
  };
  t.same(read(socket('10.0.0.1'), 'host', FORWARDED), {
    address: '203.0.113.7',
    secure: true,
    host: 'api.example.com',
    proxied: true,
    behindTrustedProxy: true,
    forwardedFor: '203.0.113.7, 10.0.0.2, 10.0.0.1',
    port: '8443',
    prefix: '/team',
  });
  forEachRow(
    [
      ['203.0.113.9', '1.1.1.1', '203.0.113.9', '203.0.113.9'],
      ['10.0.0.1', '1.1.1.1', '1.1.1.1', '1.1.1.1, 10.0.0.1'],
      ['192.0.2.1', '6.6.6.6,1.1.1.1', '1.1.1.1', '1.1.1.1, 192.0.2.1'],
      ['::ffff:10.0.0.1', '2001:db8::5, ::ffff:10.9.9.9', '2001:db8::5', '2001:db8::5, 10.9.9.9, 10.0.0.1'],
      ['2001:db8::9', '1.1.1.1', '1.1.1.1', '1.1.1.1, 2001:db8::9'],
      ['10.0.0.1', '1.2.3.4:5678', '1.2.3.4', '1.2.3.4, 10.0.0.1'],
      ['10.0.0.1', '[2001:db9::1]:443, 10.0.0.2:80', '2001:db9::1', '2001:db9::1, 10.0.0.2, 10.0.0.1'],
      ['10.0.0.1', '[2001:db9::1]', '2001:db9::1', '2001:db9::1, 10.0.0.1'],
      ['10.0.0.1', '[::ffff:1.2.3.4]:5', '1.2.3.4', '1.2.3.4, 10.0.0.1'],
      ['10.0.0.1', '::ffff:0102:0304', '1.2.3.4', '1.2.3.4, 10.0.0.1'],
      ['10.0.0.1', '::ffff:x:y', '10.0.0.1', '10.0.0.1'],
      ['10.0.0.1', '1.2.3.4:', '10.0.0.1', '10.0.0.1'],
      ['10.0.0.1', '1.2.3.4:x', '10.0.0.1', '10.0.0.1'],
      ['10.0.0.1', '999.2.3.4:1', '10.0.0.1', '10.0.0.1'],
      ['10.0.0.1', '', '10.0.0.1', '10.0.0.1'],
      ['10.0.0.1', '6.6.6.6, 1.1.1.1,,\t, 10.0.0.2 ,', '1.1.1.1', '1.1.1.1, 10.0.0.2, 10.0.0.1'],
      ['10.0.0.1', `1.1.1.1${','.repeat(63)}`, '1.1.1.1', '1.1.1.1, 10.0.0.1'],
      ['10.0.0.1', `1.1.1.1${','.repeat(64)}`, '10.0.0.1', '10.0.0.1'],
      ['10.0.0.1', 'not an address', '10.0.0.1', '10.0.0.1'],
    ] as const,
    ([peer, forwarded, address, chain]) =>
      t.same(of(peer, forwarded), [address, chain], `${peer} ${forwarded}`),
  );
});

t.test(
  'refuses an invalid host or scheme from a trusted proxy, and ignores an invalid port or prefix',
  async (t) => {
    const read = createClientReader(['10.0.0.1']);
    const told = (...fields: string[]) => read(socket('10.0.0.1'), 'host', fields);
    forEachRow(
      [
        'a b',
        'a:',
        'a:0',
        'a:65536',
        'a:99999',
        'a:080',
        '[::::]',
        '[::1',
        '[1.2.3.4]',
        'a/b',
        'a@b',
        'a?b',
        'é',
        'good, a b',
        '[::1]x',
      ],
      (host) =>
        t.match(told('X-Forwarded-Host', host), /^the header X-Forwarded-Host is not a host name/, host),
    );
    for (const port of ['x', '-1', '123456'])
      t.equal(clientOf(told('X-Forwarded-Port', port)).port, '', port);
    for (const prefix of [
      'team',
      '//evil.example',
      '/a//b',
      '/a/../b',
      '/a?b',
      '/a b',
      '/\\evil',
      'https://evil.example',
    ])
      t.equal(clientOf(told('X-Forwarded-Prefix', prefix)).prefix, '', prefix);
    for (const prefix of ['/a', '/a/b-c_d~e.f', '/caf%C3%A9', '/...', 'bad, /a'])
      t.equal(clientOf(told('X-Forwarded-Prefix', prefix)).prefix, prefix.split(', ').at(-1), prefix);
    forEachRow(['a', 'a.b:1', 'a:65535', '[::1]:443', '[::ffff:1.2.3.4]', 'bad host, a', 'a_b.c~d'], (host) =>
      t.equal(clientOf(told('X-Forwarded-Host', host)).host, host.split(', ').at(-1), host),
    );
    forEachRow(
      [
        ['https', true],
        ['HTTPS', true],
        ['http, https', true],
        ['https, http', false],
        ['wss', true],
        ['ws', false],
        ['', false],
      ] as const,
      ([proto, secure]) => t.equal(clientOf(told('X-Forwarded-Proto', proto)).secure, secure, proto),
    );
    forEachRow(['gopher', 'https:', 'on', 'https http', '1'], (proto) =>
      t.match(told('X-Forwarded-Proto', proto), /^the header X-Forwarded-Proto is neither/, proto),
    );
  },
);
