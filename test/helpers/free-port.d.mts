/** Returns a port that no process listens on. */
export function freePort(): Promise<number>;
