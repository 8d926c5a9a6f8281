/** What repeats is logged this often. */
const INTERVAL_MS = 10_000;

/**
 * Makes a function that says whether something is to be logged now: the number of times it was not logged since the last
 * time, or undefined while that was a short while ago. Its keys must be few.
 */
export function createLogThrottle(): (key: string) => number | undefined {
  const logged = new Map<string, { at: number; suppressed: number }>();
  return (key) => {
    const last = logged.get(key);
    const now = Date.now();
    if (last !== undefined && now - last.at < INTERVAL_MS) {
      last.suppressed += 1;
      return undefined;
    }
    logged.set(key, { at: now, suppressed: 0 });
    return last?.suppressed ?? 0;
  };
}
