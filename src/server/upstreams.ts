import { createLogThrottle } from '../util/time.js';
import { addressesOf } from '../config/derived.js';
import type { LoadedConfig } from '../config/load.js';
import type { Log } from '../observe/log.js';
import { type AddressState, upstreamRetries } from '../observe/metrics.js';
import type { UpstreamLoad } from '../observe/metrics/requests.js';
import { printable } from '../util/text.js';
import {
  createUpstreams,
  type Upstream,
  type UpstreamEvents,
  type Upstreams,
} from '../upstream/upstreams.js';

export function openUpstreams({ upstreams }: LoadedConfig['config'], log: Log): Upstreams {
  const settings = Object.entries(upstreams).map(
    ([name, each]) => [name, { ...each, urls: addressesOf(each) }] as const,
  );
  return createUpstreams(Object.fromEntries(settings), createUpstreamLog(log));
}

/** Returns the current state of each address, for the metrics. */
export function addressStates({ all }: Upstreams): AddressState[] {
  return all.flatMap(({ name, addresses }) =>
    addresses.map(({ origin, health }) => ({ upstream: name, address: origin, usable: health.usable })),
  );
}

export function sumLoads(loads: readonly UpstreamLoad[]): UpstreamLoad[] {
  const sums = new Map<string, UpstreamLoad>();
  for (const { name, active, waiting } of loads) {
    const known = sums.get(name);
    sums.set(name, {
      name,
      active: active + (known?.active ?? 0),
      waiting: waiting + (known?.waiting ?? 0),
    });
  }
  return [...sums.values()];
}

/** Returns a route's upstream. The configuration check ensured that it exists. */
export function upstreamNamed(
  upstreams: { get(name: string): Upstream | undefined },
  name: string,
): Upstream {
  const upstream = upstreams.get(name);
  if (upstream === undefined) throw new Error(`no upstream is named ${name}`);
  return upstream;
}

/** Creates the listener that logs upstream events and counts retries. */
function createUpstreamLog(log: Log): UpstreamEvents {
  // An unreachable address fails every request.
  const throttle = createLogThrottle();
  return {
    changed: ({ upstream, address, usable, cause }) => {
      const line = { upstream, address, reason: printable(cause) };
      if (usable) log.info(line, 'upstream address healthy; back in use');
      else log.warn(line, 'upstream address unhealthy; taken out of use');
    },
    failed: ({ upstream, address, code, cause }) => {
      const suppressed = throttle(`${upstream} ${address} ${code}`);
      if (suppressed !== undefined)
        log.warn(
          { upstream, address, code, reason: printable(cause), suppressed },
          'upstream address failed',
        );
    },
    retried: (upstream) => upstreamRetries.inc({ upstream }),
  };
}
