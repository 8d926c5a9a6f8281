import { setTimeout as sleep } from 'node:timers/promises';
import { freshMetrics, send } from './http.js';

/**
 * Gauges of activity: each is zero at rest. `latchkey_connections` is not among them because it
 * counts idle ones too.
 */
const AT_REST =
  /^latchkey_(?:requests_in_flight|upstream_active_requests|upstream_waiting_requests|websockets|streams)(?:\{[^}]*\})? (?!0$)/;

/** Returns negative series as lines. No counted quantity can be negative. */
export function negativeSeries(text: string): string[] {
  return text.split('\n').filter((line) => /^latchkey_\S+ -/.test(line));
}

/** Returns the series that show activity, as lines. */
export async function underWay(admin: string): Promise<string[]> {
  return (await freshMetrics(admin)).split('\n').filter((line) => AT_REST.test(line));
}

/** @throws Error if a server that still responds reports a negative count */
export async function refuseNegativeCounts(admin: string): Promise<void> {
  const page = await Promise.race([
    send(admin, '/metrics').catch(() => undefined),
    sleep(1_000, undefined, { ref: false }),
  ]);
  const negative = negativeSeries(page?.text ?? '');
  if (negative.length > 0) throw new Error(`counts below zero: ${negative.join(', ')}`);
}
