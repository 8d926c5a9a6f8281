import { Counter } from 'prom-client';
import type { OnYield } from '../domain/limiter.js';
import type { Log } from './log.js';
import { createLogThrottle } from './log-throttle.js';

const evictions = new Counter({
  name: 'latchkey_evictions_total',
  help: 'Requests and WebSockets that gave way to others at a full resource, because their client had the most.',
  labelNames: ['resource'] as const,
});

let log: Log | undefined;
const throttle = createLogThrottle();

/** Sets where evictions are logged; before, they are only counted. */
export function logEvictionsTo(destination: Log): void {
  log = destination;
}

/**
 * Creates the listener that counts and logs who gives way at a limited resource.
 *
 * @param upstream its name in the configuration
 */
export function reportYields(limited: 'upstream' | 'login' | 'body', upstream?: string): OnYield {
  return (kind, name, count) => {
    const resource = `${limited}_${kind === 'held' ? 'slots' : 'queue'}`;
    evictions.inc({ resource });
    const suppressed = throttle(`${resource} ${upstream ?? ''}`);
    if (suppressed === undefined || log === undefined) return;
    const of = upstream === undefined ? {} : { upstream };
    log.warn(
      { resource, ...of, holder: name, count, suppressed },
      'requests of one client gave way to others',
    );
  };
}
