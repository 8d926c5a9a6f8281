/**
 * A value that may be there already or may still be on its way.
 *
 * The embedded store answers at once and a networked one later. Code on the hot path handles both
 * with {@link whenReady}, so that an answer that is already there costs no promise.
 */
export type Awaitable<T> = T | Promise<T>;

/** Calls `next` with the value: now when it is there, later when it is a promise. */
export function whenReady<T, U>(value: Awaitable<T>, next: (value: T) => Awaitable<U>): Awaitable<U> {
  return value instanceof Promise ? value.then(next) : next(value);
}
