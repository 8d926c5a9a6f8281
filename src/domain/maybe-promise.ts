/**
 * A value that may be there already or may still be on its way.
 *
 * The embedded store answers at once and a networked one later. Code on the hot path handles both
 * with {@link mapMaybe}, so that an answer that is already there costs no promise.
 */
export type MaybePromise<T> = T | Promise<T>;

/** Calls `next` with the value: now when it is there, later when it is a promise. */
export function mapMaybe<T, U>(value: MaybePromise<T>, next: (value: T) => MaybePromise<U>): MaybePromise<U> {
  return value instanceof Promise ? value.then(next) : next(value);
}
