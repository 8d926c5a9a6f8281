// Preloaded into a command: kills its process with SIGKILL at one of its changes of the store. DIE_AT
// counts them from 1. DIE_WHEN is `before` the change, `within` it (sent to Redis, or not committed
// yet), or `after` it.
import { setImmediate } from 'node:timers/promises';
import { LmdbKv } from '../../dist/store/lmdb/kv.js';
import { RedisKv } from '../../dist/store/redis/kv.js';

const at = Number(process.env.DIE_AT);
const when = process.env.DIE_WHEN;
let changes = 0;

const die = () => process.kill(process.pid, 'SIGKILL');
/** Links of a change, which are written after its records. */
const fatal = { [Symbol.iterator]: die };

const inLmdb = Reflect.get(LmdbKv.prototype, 'commit');
LmdbKv.prototype.commit = function (change) {
  changes += 1;
  if (changes !== at) return inLmdb.call(this, change);
  if (when === 'before') die();
  inLmdb.call(this, when === 'within' ? { ...change, link: fatal } : change);
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
