import type { Config } from '../config/schema/config.js';
import type { Log } from '../observe/log.js';
import { metrics, observeStoreOperation } from '../observe/metrics.js';
import { type Tracing, currentTrace } from '../observe/tracing.js';
import type { OnOperation } from '../store/measured.js';
import { createLogThrottle } from '../util/time.js';
import type { JwtEvents } from '../accounts/jwt/issuers.js';
import { printable } from '../util/text.js';

export async function startTracing({ tracing }: Config, log: Log): Promise<Tracing | undefined> {
  if (tracing === null) return undefined;
  // Processes without tracing do not load the SDK.
  const { createTracing } = await import('../observe/tracing/spans.js');
  return createTracing(tracing, {
    dropped: (spans, reason) => {
      metrics.droppedSpans.inc(spans);
      if (reason !== null) log.warn({ reason, otlp: tracing.otlp }, 'trace export failed; spans dropped');
    },
  });
}

/** Counts store operations, and adds them to the trace of the current request. */
export function storeObserver(tracing: Tracing | undefined): OnOperation {
  if (tracing === undefined) return measure;
  return (operation, startedAt, failed, left) => {
    measure(operation, startedAt, failed, left);
    currentTrace()?.stored(operation, startedAt, failed, left);
  };
}

const measure: OnOperation = (operation, startedAt, failed) =>
  observeStoreOperation(operation, (performance.now() - startedAt) / 1000, failed);

/** Counts JWT events, and logs when fetching keys starts failing or recovers. */
export function createJwtEvents(log: Log): JwtEvents {
  const throttle = createLogThrottle(60_000);
  const failing = new Set<string>();
  return {
    verified: (issuer, outcome) => metrics.jwtVerifications.inc({ issuer, outcome }),
    fetched: (issuer, error) => {
      metrics.jwtKeyFetches.inc({ issuer, outcome: error === undefined ? 'succeeded' : 'failed' });
      if (error === undefined) {
        if (failing.delete(issuer)) log.info({ issuer }, 'issuer keys reachable again');
        return;
      }
      failing.add(issuer);
      const reason = printable(error instanceof Error ? error.message : 'unknown');
      const suppressed = throttle(`${issuer} ${reason}`);
      if (suppressed !== undefined)
        log.warn({ issuer, reason, suppressed }, 'issuer keys unreachable; known keys stay in use');
    },
  };
}
