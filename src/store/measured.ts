import { performance } from 'node:perf_hooks';
import type { StoreOperation } from '../observe/metrics.js';
import { keyOf, SESSION, TOKEN } from './core/kinds.js';
import type { Kv } from './core/kv.js';

/**
 * @param startedAt `performance.now()`
 * @param isAsync whether it returned a promise: it left this thread or was a write
 */
export type OnOperation = (
  operation: StoreOperation,
  startedAt: number,
  failed: boolean,
  isAsync: boolean,
) => void;

/** Times what a store does. Results are passed through unchanged. */
export function measured(inner: Kv, onOperation: OnOperation): Kv {
  const timed = <Args extends unknown[], T>(operation: StoreOperation, method: (...args: Args) => T) =>
    timedMethod(method, operation, onOperation);
  const follow: Kv['follow'] = (key, beside) => inner.follow(key, beside);
  const [findToken, findSession] = [timed('find_token', follow), timed('find_session', follow)];
  const followOther = timed('read', follow);
  const [tokens, sessions] = [keyOf(TOKEN, ''), keyOf(SESSION, '')];
  const kv: Kv = {
    read: timed('read', (keys: Parameters<Kv['read']>[0]) => inner.read(keys)),
    follow: (key, beside) => {
      if (key.startsWith(tokens)) return findToken(key, beside);
      return key.startsWith(sessions) ? findSession(key, beside) : followOther(key, beside);
    },
    ...(inner.recent === undefined ? {} : { recent: (key) => inner.recent?.(key) }),
    ...(inner.readAndCount === undefined
      ? {}
      : { readAndCount: timed('read', inner.readAndCount.bind(inner)) }),
    range: timed('read', (...args: Parameters<Kv['range']>) => inner.range(...args)),
    count: timed('read', (...args: Parameters<Kv['count']>) => inner.count(...args)),
    scores: timed('read', (...args: Parameters<Kv['scores']>) => inner.scores(...args)),
    commit: timed('write', async (change: Parameters<Kv['commit']>[0]) => inner.commit(change)),
    touch: timed('record_uses', async (uses: Parameters<Kv['touch']>[0]) => inner.touch(uses)),
    confirmMissing: () => inner.confirmMissing(),
    get urgent() {
      return urgent;
    },
    clock: () => inner.clock(),
    close: async () => inner.close(),
  };
  const urgent: Kv = inner.urgent === inner ? kv : measured(inner.urgent, onOperation);
  return kv;
}

function timedMethod<Args extends unknown[], T>(
  method: (...args: Args) => T,
  operation: StoreOperation,
  onOperation: OnOperation,
): (...args: Args) => T {
  return (...args) => {
    const startedAt = performance.now();
    let result: T;
    try {
      result = method(...args);
    } catch (error) {
      onOperation(operation, startedAt, true, false);
      throw error;
    }
    if (!(result instanceof Promise)) {
      onOperation(operation, startedAt, false, false);
      return result;
    }
    const done = (failed: boolean) => onOperation(operation, startedAt, failed, true);
    result.then(
      () => done(false),
      () => done(true),
    );
    return result;
  };
}
