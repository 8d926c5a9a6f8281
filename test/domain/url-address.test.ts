import t from 'tap';
import { hostOf, portOf } from '../../src/util/addresses.js';
import { forEachRow } from '../helpers/table.js';

t.test('the port of a URL', async (t) => {
  forEachRow<[string, number]>(
    [
      ['http://a', 80],
      ['http://a:80', 80],
      ['https://a', 443],
      ['https://a:443/', 443],
      ['http://a:443', 443],
      ['https://a:80', 80],
      ['http://[::1]:3000/x', 3000],
      ['http://a:0', 0],
    ],
    ([url, port]) => void t.equal(portOf(new URL(url)), port, url),
  );
});

t.test('the host of a URL, for a socket', async (t) => {
  for (const [url, host] of [
    ['http://a:1', 'a'],
    ['http://127.0.0.1', '127.0.0.1'],
    ['https://[::1]:3000/x', '::1'],
  ] as const)
    t.equal(hostOf(new URL(url)), host, url);
});
