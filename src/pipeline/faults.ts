import { createLogThrottle } from '../util/time.js';
import { malformed, type Refusal, Unavailable } from '../domain/refusal.js';
import { type Fault, FAULTS, type OtherProtocol } from '../http1/events.js';
import type { Log } from '../observe/log.js';

/**
 * Returns the refusal for input that is not a valid HTTP/1.1 request.
 * @param at byte of the message at which it was found, if known
 */
export function parseRefusal(fault: Fault, at?: number): Refusal {
  switch (fault) {
    case 'head_too_large':
    case 'trailers_too_large':
      return { refusal: 'fields_too_large', detail: 'the header fields together are too long' };
    case 'target_too_long':
      return { refusal: 'target_too_long', detail: 'the request target is too long' };
    case 'too_many_fields':
      return { refusal: 'fields_too_large', detail: 'too many header fields' };
    case 'chunk_line_too_long':
    case 'extensions_too_large':
      return { refusal: 'body_too_large', detail: 'the chunk extensions are too long' };
    default: {
      const where = at === undefined ? '' : ` at byte ${at}`;
      return malformed(`the request is not well-formed HTTP/1.1: ${fault}${where} (${FAULTS[fault]})`);
    }
  }
}

const OTHER_PROTOCOLS: Readonly<Record<OtherProtocol, string>> = {
  TLS: 'TLS on a port without TLS; use http://, or set listen.tls',
  'HTTP/2': 'HTTP/2 without TLS, which only the port of listen accepts, with listen.h2c: true and without listen.tls',
}; // prettier-ignore

/** Returns the refusal for the first bytes of another protocol than HTTP/1.1. */
export function otherProtocolRefusal(protocol: OtherProtocol): Refusal {
  return malformed(OTHER_PROTOCOLS[protocol]);
}

export type FaultLog = (error: unknown, message: string, requestId?: string) => void;

/** Unavailability fails every request, so it is throttled; any other fault is logged each time. */
export function createFaultLog(log: Log): FaultLog {
  const throttle = createLogThrottle();
  return (error, message, requestId) => {
    if (!(error instanceof Unavailable)) {
      log.error({ err: error, request_id: requestId }, message);
      return;
    }
    const suppressed = throttle(error.refusal.refusal);
    if (suppressed !== undefined)
      log.error({ reason: error.message, request_id: requestId, suppressed }, message);
  };
}

/** Reports a mistake that the proxy's operator must fix. */
export type ReportMisconfiguration = (refusal: Refusal & { readonly detail: string }) => void;

export function createMisconfigurationReporter(log: Log): ReportMisconfiguration {
  const throttle = createLogThrottle();
  return ({ refusal, detail }) => {
    // Clients choose the paths of built-in endpoints, so all of them count as one message.
    const suppressed = throttle(refusal === 'own_endpoint' ? refusal : detail);
    if (suppressed !== undefined) log.warn({ detail, suppressed }, 'misconfigured forward-auth proxy');
  };
}
