import { performance } from 'node:perf_hooks';
import { storeErrors, storeOperationDuration, type StoreOperation } from '../observe/metrics/requests.js';
import { currentTrace } from '../observe/tracing.js';
import { keyOf, SESSION, TOKEN } from './core/kinds.js';
import type { Kv } from './core/kv.js';

/** Counts and times what a store does, and adds it to the trace of the request. Results are passed through unchanged. */
export function measured(inner: Kv): Kv {
  const timed = <Name extends 'read' | 'follow' | 'count' | 'range' | 'scores' | 'touch'>(
    operation: StoreOperation,
    name: Name,
  ) => timedMethod(inner[name].bind(inner) as never, operation) as Kv[Name];
  const [findToken, findSession] = [timed('find_token', 'follow'), timed('find_session', 'follow')];
  const follow = timed('read', 'follow');
  const [tokens, sessions] = [keyOf(TOKEN, ''), keyOf(SESSION, '')];
  const kv: Kv = {
    read: timed('read', 'read'),
    follow: (key, beside) => {
      if (key.startsWith(tokens)) return findToken(key, beside);
      return key.startsWith(sessions) ? findSession(key, beside) : follow(key, beside);
    },
    recent: inner.recent.bind(inner),
    count: timed('read', 'count'),
    range: timed('read', 'range'),
    scores: timed('read', 'scores'),
    commit: timedMethod(async (change) => inner.commit(change), 'write'),
    touch: timed('record_uses', 'touch'),
    confirmMissing: inner.confirmMissing.bind(inner),
    get urgent() {
      return urgent;
    },
    clock: inner.clock.bind(inner),
    tidy: inner.tidy.bind(inner),
    close: inner.close.bind(inner),
  };
  const urgent: Kv = inner.urgent === inner ? kv : measured(inner.urgent);
  return kv;
}

function timedMethod<Args extends unknown[], T>(
  method: (...args: Args) => T,
  operation: StoreOperation,
): (...args: Args) => T {
  return (...args) => {
    const startedAt = performance.now();
    let result: T;
    try {
      result = method(...args);
    } catch (error) {
      observe(operation, startedAt, true, false);
      throw error;
    }
    if (!(result instanceof Promise)) {
      observe(operation, startedAt, false, false);
      return result;
    }
    const done = (failed: boolean) => observe(operation, startedAt, failed, true);
    result.then(
      () => done(false),
      () => done(true),
    );
    return result;
  };
}

/** @param isAsync whether it returned a promise: it left this thread or was a write */
function observe(operation: StoreOperation, startedAt: number, failed: boolean, isAsync: boolean): void {
  storeOperationDuration.of(operation).observe((performance.now() - startedAt) / 1000);
  if (failed) storeErrors.inc({ operation });
  currentTrace.getStore()?.stored(operation, startedAt, failed, isAsync);
}
