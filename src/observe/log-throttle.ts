/**
 * Creates a function that decides whether a message is logged now.
 *
 * The function takes the message's key, of which there must be few. It returns how many messages
 * were suppressed since the last one logged, or undefined if that was less than an interval ago.
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
