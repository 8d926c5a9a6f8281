/** Returns the path of the program that tests start, which is rebuilt after a new build. */
export function programOf(): string;
