import { createHash } from 'node:crypto';
import t from 'tap';
import {
  derivedId,
  digestFromHex,
  digestOf,
  isAccessToken,
  newAccessToken,
  newId,
  newSessionId,
  SESSION_ID_LENGTH,
} from '../../src/domain/secret.js';

t.test('an access token is 40 alphanumeric characters with a valid checksum', async (t) => {
  const seen = new Set<string>();
  for (let i = 0; i < 1_000; i++) {
    const token = newAccessToken();
    seen.add(token);
    if (!/^lk[0-9A-Za-z]{38}$/.test(token) || !isAccessToken(token)) t.fail(token);
  }
  t.equal(seen.size, 1_000);
});

t.test('any single changed, added or missing character breaks the checksum', async (t) => {
  const token = newAccessToken();
  let wrong = 0;
  for (let i = 0; i < token.length; i++) {
    const other = token[i] === 'A' ? 'B' : 'A';
    if (isAccessToken(token.slice(0, i) + other + token.slice(i + 1))) wrong += 1;
    if (isAccessToken(token.slice(0, i) + token.slice(i + 1))) wrong += 1;
    if (isAccessToken(`${token.slice(0, i)}A${token.slice(i)}`)) wrong += 1;
  }
  t.equal(wrong, 0);
});

t.test('the checksum is CRC32 of the first 34 characters in base62', async (t) => {
  // Computed with another implementation (Python: zlib.crc32, digits 0-9A-Za-z).
  t.ok(isAccessToken('lk000000000000000000000000000000003dQoGl'));
  t.notOk(isAccessToken(`lk${'0'.repeat(38)}`));
});

t.test('ids, session ids and digests have their documented forms', async (t) => {
  t.match(newId(), /^[0-9A-Za-z]{22}$/);
  t.equal(newSessionId().length, SESSION_ID_LENGTH);
  const hex = createHash('sha256').update('abc').digest('hex');
  t.equal(digestOf('abc'), digestFromHex(hex));
  t.equal(derivedId('a', 'b'), derivedId('a', 'b'));
  t.not(derivedId('a', 'b'), derivedId('ab', ''));
  t.match(derivedId('x'), /^[0-9A-Za-z]{22}$/);
});
