import { posix } from 'node:path';
import * as fc from 'fast-check';
import t from 'tap';
import { parseUpstreamUrl } from '../../src/domain/urls.js';
import { property, Share } from '../helpers/property.js';

/**
 * Characters that are refused in a path, because other readers could get another path from the same
 * text.
 */
const REFUSED = /[^!-~]|[%?#:@\\]/;

t.test('a character in the path of a Unix socket stands for itself or is refused', async (t) => {
  for (let code = 0; code < 0x300; code++) {
    const path = `/run/a${String.fromCharCode(code)}b.sock`;
    const socketPath = parseUpstreamUrl(`unix://${path}`)?.socketPath;
    if (socketPath !== (REFUSED.test(path) ? undefined : path)) t.fail(JSON.stringify(path));
  }
});

t.test('the longest path is the longest that the system supports', async (t) => {
  const longest = `unix:///${'a'.repeat(106)}`;
  t.equal(parseUpstreamUrl(longest)?.socketPath?.length, 107);
  t.equal(parseUpstreamUrl(`${longest}a`), undefined);
});

const accepted = new Share();
// Most of them are valid in a path, so that the property also covers sockets.
const parts = fc.oneof(
  { weight: 6, arbitrary: fc.constantFrom('/run', '/a', '/.a', '/x.sock') },
  { weight: 1, arbitrary: fc.constantFrom('/', '.', '..', '@', '%2f', ' ', ':') },
);
property(
  'a Unix socket has exactly one URL',
  20_000,
  fc.tuple(
    fc.constantFrom('unix://', 'unix://', 'unix://', 'unix:', 'http://', 'http+unix://', ''),
    fc.array(parts, { maxLength: 8 }),
  ),
  ([scheme, segments]) => {
    const text = scheme + segments.join('');
    const { socketPath, origin, prefix } = parseUpstreamUrl(text) ?? { socketPath: null };
    if (scheme === 'unix://') accepted.note(socketPath !== null);
    if (socketPath === null) return;
    if (origin !== text || text !== `unix://${socketPath}` || prefix !== '')
      throw new Error('it is read as another one');
    if (posix.resolve(socketPath) !== socketPath) throw new Error('it has another spelling');
  },
);

t.test('the property above covers sockets', async (t) => {
  t.ok(accepted.exceeds(0.05), `${accepted.part}`);
});
