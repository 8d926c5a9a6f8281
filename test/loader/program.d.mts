/** Returns the path of the program that tests start. */
export function programOf(): string;

/** Makes the program of the latest build, unless it was made. */
export function prepareProgram(): Promise<void>;

/** Evaluates the program anew, with everything global that it uses. */
export function evaluateProgram(
  require: (name: string) => unknown,
  globals: readonly unknown[],
): { run: () => Promise<void> };
