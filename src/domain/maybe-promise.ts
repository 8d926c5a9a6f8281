/**
 * A value that is available now or through a promise.
 *
 * The embedded store answers synchronously and a networked one asynchronously. Code on the hot path
 * handles both with {@link mapMaybe}, so that a synchronous answer costs no promise.
 */
export type MaybePromise<T> = T | Promise<T>;

/** Calls `next` with the value: immediately, or when the promise resolves. */
export function mapMaybe<T, U>(value: MaybePromise<T>, next: (value: T) => MaybePromise<U>): MaybePromise<U> {
  return value instanceof Promise ? value.then(next) : next(value);
}
