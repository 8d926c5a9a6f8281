// A process that creates and revokes tokens in a store as fast as it can, and prints each
// acknowledged step.
import { writeSync } from 'node:fs';
import { built } from '../../bench/lib/built.mjs';

const { openLmdbStore } = await built('store/lmdb');
const [path = '', prefix] = process.argv.slice(2);
const store = openLmdbStore(path);
/**
 * @param {string} id
 * @returns {import('../../src/domain/token.js').Token}
 */
const token = (id) => ({
  id,
  digest: `digest-${id}`,
  kind: 'token',
  userId: 'U1',
  name: '',
  scopes: ['global'],
  services: [],
  serviceId: null,
  createdAt: 0,
  updatedAt: 0,
  expiresAt: null,
});
const owner = await store.directory.getUser('U1');
if (owner === undefined) throw new Error('the store has no U1');
for (let i = 0; ; i++) {
  const id = `${prefix}${i}`;
  await store.tokens.create(token(id), owner, { active: null, stored: null }, 0);
  writeSync(1, `created ${id}\n`);
  if (i % 2 === 0) continue;
  await store.tokens.revoke([id]);
  writeSync(1, `revoked ${id}\n`);
}
