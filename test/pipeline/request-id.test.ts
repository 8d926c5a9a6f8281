import t from 'tap';
import { newRequestId } from '../../src/pipeline/record.js';

t.test('request ids are random: neighbors share no more than chance allows', async (t) => {
  const ids = Array.from({ length: 2_000 }, newRequestId);
  t.equal(new Set(ids).size, ids.length, 'each is unique, also across refills of the pool');
  const malformed = ids.find((id) => !/^[\w-]{20}$/.test(id));
  t.equal(malformed, undefined, 'each has 20 characters of base64url');
  const alike = ids.filter((id, i) => i > 0 && id.slice(0, 6) === ids[i - 1]?.slice(0, 6));
  t.strictSame(alike, [], 'no id shares its first 36 bits with the one before it');
  for (let at = 0; at < 20; at += 1)
    t.ok(new Set(ids.map((id) => id[at])).size > 32, `character ${at} varies`);
});
