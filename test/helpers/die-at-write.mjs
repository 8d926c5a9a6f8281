// Preloaded into a command: kills its process with SIGKILL at one of its changes of the store. DIE_AT
// counts them from 1. DIE_WHEN is `before` the change, `within` it (sent to Redis, or not committed
// yet), or `after` it.
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setImmediate } from 'node:timers/promises';
import { open } from 'lmdb';
import { LmdbKv } from '../../dist/store/lmdb/kv.js';
import { RedisKv } from '../../dist/store/redis/kv.js';

const at = Number(process.env.DIE_AT);
const when = process.env.DIE_WHEN;
let changes = 0;
/** Whether a change is being written to the embedded store. */
let isWriting = false;

const die = () => process.kill(process.pid, 'SIGKILL');

// The methods of lmdb's databases are those of an opened one.
const folder = mkdtempSync(join(tmpdir(), 'die-at-write-'));
const database = open({ path: folder, overlappingSync: false });
let methods = Object.getPrototypeOf(database);
while (!Object.hasOwn(methods, 'putSync')) methods = Object.getPrototypeOf(methods);
const { putSync } = methods;
methods.putSync = function (...args) {
  const done = putSync.apply(this, args);
  if (isWriting && when === 'within') die();
  return done;
};
await database.close();
rmSync(folder, { recursive: true });

const inLmdb = Reflect.get(LmdbKv.prototype, 'commit');
LmdbKv.prototype.commit = function (change) {
  changes += 1;
  if (changes !== at) return inLmdb.call(this, change);
  if (when === 'before') die();
  isWriting = true;
  inLmdb.call(this, change);
  die();
};

const inRedis = Reflect.get(RedisKv.prototype, 'commit');
RedisKv.prototype.commit = async function (change) {
  changes += 1;
  if (changes !== at) return inRedis.call(this, change);
  if (when === 'before') die();
  const made = inRedis.call(this, change);
  if (when === 'within') await setImmediate();
  else await made;
  die();
};
