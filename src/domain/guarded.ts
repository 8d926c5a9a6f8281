/**
 * Wraps a listener so that it never throws.
 *
 * An error that escapes a listener of an event, callback or timer ends the process.
 *
 * @param failed receives the error and the listener's arguments; it refuses or closes, and logs
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
