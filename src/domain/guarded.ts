/**
 * Makes a listener that never throws, for events, callbacks and timers: an error that leaves one of those ends the process.
 *
 * @param failed gets what was thrown, and what the listener was called with; it refuses or closes, and logs
 */
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
