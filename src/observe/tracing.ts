import { AsyncLocalStorage } from 'node:async_hooks';

interface StoreTrace {
  /** @param left whether it left this thread; then it gets a span of its own */
  stored(operation: string, startedAt: number, failed: boolean, left: boolean): void;
}

/** Holds the trace of the request being served; none outside a request or without tracing. */
export const currentTrace = new AsyncLocalStorage<StoreTrace>();
