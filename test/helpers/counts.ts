import { setTimeout as sleep } from 'node:timers/promises';
import { freshMetrics, send } from './http.js';

/** What is under way: each of these is zero when nothing is. `latchkey_connections` counts idle ones as well. */
const AT_REST =
  /^latchkey_(?:requests_in_flight|upstream_active_requests|upstream_waiting_requests|websockets|streams)(?:\{[^}]*\})? (?!0$)/;

/** Series below zero, as lines. Nothing that is counted can be. */
export function negativeSeries(text: string): string[] {
  return text.split('\n').filter((line) => /^latchkey_\S+ -/.test(line));
}

/** Series that say that something is under way, as lines. */
export async function underWay(admin: string): Promise<string[]> {
  return (await freshMetrics(admin)).split('\n').filter((line) => AT_REST.test(line));
}

/** @throws Error when a server that still answers counts something below zero */
export async function refuseNegativeCounts(admin: string): Promise<void> {
  const page = await Promise.race([
    send(admin, '/metrics').catch(() => undefined),
    sleep(1_000, undefined, { ref: false }),
  ]);
  const negative = negativeSeries(page?.text ?? '');
  if (negative.length > 0) throw new Error(`counts below zero: ${negative.join(', ')}`);
}
