/**
 * Makes a function that says whether a message is to be logged now: how many were suppressed since the last one, or
 * undefined while that is less than an interval ago.
 *
 * @returns a function of what the message is about; there must be few such keys
 */
export function createLogThrottle(intervalMs = 10_000): (key?: string) => number | undefined {
  const logged = new Map<string, { at: number; suppressed: number }>();
  return (key = '') => {
    const last = logged.get(key);
    const now = performance.now();
    if (last !== undefined && now - last.at < intervalMs) {
      last.suppressed += 1;
      return undefined;
    }
    logged.set(key, { at: now, suppressed: 0 });
    return last?.suppressed ?? 0;
  };
}
