import { createLogThrottle } from '../util/time.js';
import type { OnYield } from '../domain/limiter.js';
import type { Log } from './log.js';

/** Where a server logs and counts evictions. Commands have neither, and do not load the metrics. */
interface Destination {
  readonly log: Log;
  readonly counter: { inc(labels: { resource: string }): void };
}

let destination: Destination | undefined;
const throttle = createLogThrottle();

export function reportEvictionsTo(log: Log, counter: Destination['counter']): void {
  destination = { log, counter };
}

/** Creates the listener that counts and logs who gives way at a limited resource. */
export function reportYields(limited: 'upstream' | 'login' | 'body', upstream?: string): OnYield {
  return (kind, name, count) => {
    if (destination === undefined) return;
    const { log, counter } = destination;
    const resource = `${limited}_${kind === 'held' ? 'slots' : 'queue'}`;
    counter.inc({ resource });
    const suppressed = throttle(`${resource} ${upstream ?? ''}`);
    if (suppressed === undefined) return;
    const of = upstream === undefined ? {} : { upstream };
    log.warn(
      { resource, ...of, holder: name, count, suppressed },
      'requests of one client gave way to others',
    );
  };
}
