// A process of its own on a store: creates and revokes tokens as fast as it can and prints each acknowledged step.
import { writeSync } from 'node:fs';
import { openLmdbStore } from '../../src/store/lmdb.js';
import { NOW, token } from './contract.js';

const [path = '', prefix = ''] = process.argv.slice(2);
const store = openLmdbStore(path);
for (let i = 0; ; i++) {
  const id = `${prefix}${i}`;
  await store.createToken(token(id), null, NOW);
  writeSync(1, `created ${id}\n`);
  if (i % 2 === 0) continue;
  await store.revokeTokens([id]);
  writeSync(1, `revoked ${id}\n`);
}
