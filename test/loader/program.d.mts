/** Returns the path of the program that tests start, which is rebuilt after a new build. */
export function programOf(): string;

/** Returns the function that evaluates the program anew, with everything global that it uses. */
export function evaluatorOf(): (
  require: unknown,
  module: unknown,
  exports: unknown,
  process: unknown,
  global: unknown,
  ...timers: unknown[]
) => void;
