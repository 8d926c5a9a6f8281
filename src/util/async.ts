/** A value now, or through a promise: an answer of the embedded store costs the hot path no promise. */
export type MaybePromise<T> = T | Promise<T>;

/** Calls `next` with the value: immediately, or when the promise resolves. */
export function mapMaybe<T, U>(value: MaybePromise<T>, next: (value: T) => MaybePromise<U>): MaybePromise<U> {
  return value instanceof Promise ? value.then(next) : next(value);
}

/** Returns the result of some work. @throws `late()` if it takes longer; the work goes on */
export async function inTime<T>(work: Promise<T>, ms: number, late: () => Error): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  const expired = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(late()), ms);
  });
  try {
    return await Promise.race([work, expired]);
  } finally {
    clearTimeout(timer);
  }
}

/** Wraps a listener so that it never throws, which would end the process. */
export function guarded<Args extends unknown[]>(
  listener: (...args: Args) => void,
  failed: (error: unknown, ...args: Args) => void,
): (...args: Args) => void {
  return (...args) => {
    try {
      listener(...args);
    } catch (error) {
      failed(error, ...args);
    }
  };
}

/** A sleep of one loop that other code can end early. It does not keep the process alive. */
export class WakeableSleep {
  #end: () => void = () => undefined;

  async sleep(ms: number): Promise<void> {
    await new Promise<void>((resolve) => {
      const timer = setTimeout(resolve, ms).unref();
      this.#end = () => {
        clearTimeout(timer);
        resolve();
      };
    });
  }

  wake(): void {
    this.#end();
  }
}
