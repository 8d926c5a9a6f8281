// Preloaded into a command: kills its process with SIGKILL at one of its store writes. DIE_AT
// counts them from 1. DIE_WHEN is `before` the write, `within` it (sent to Redis, or not committed
// yet), or `after` it.
import { setImmediate } from 'node:timers/promises';
import { Transactions } from '../../dist/store/lmdb/transactions.js';
import { RedisClient } from '../../dist/store/redis/client.js';

const at = Number(process.env.DIE_AT);
const when = process.env.DIE_WHEN;
const READS = /^(get|members|read|count(?!Write)|filter|find|has|known|attemptHeld)/;
let writes = 0;

const die = () => process.kill(process.pid, 'SIGKILL');

const write = Reflect.get(Transactions.prototype, 'write');
Transactions.prototype.write = function (work, kind) {
  writes += 1;
  if (writes !== at) return write.call(this, work, kind);
  if (when === 'before') die();
  const result = write.call(
    this,
    (dbs) => {
      const made = work(dbs);
      if (when === 'within') die();
      return made;
    },
    kind,
  );
  die();
  return result;
};

const script = Reflect.get(RedisClient.prototype, 'script');
RedisClient.prototype.script = async function (name, ...args) {
  if (READS.test(name)) return script.call(this, name, ...args);
  writes += 1;
  if (writes !== at) return script.call(this, name, ...args);
  if (when === 'before') die();
  const answer = script.call(this, name, ...args);
  if (when === 'within') await setImmediate();
  else await answer;
  die();
  return answer;
};
