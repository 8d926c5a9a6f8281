import type { RequestHead } from '../http/head.js';
import type { RequestTrace, Tracing } from '../observe/tracing.js';
import type { Upstream } from '../upstream/upstreams.js';
import type { RequestRecord } from './record.js';

export function beginTrace(tracing: Tracing, record: RequestRecord, head: RequestHead | null): void {
  if (head === null) {
    record.trace = tracing.begin(record.startedAt, null);
    return;
  }
  const { method, path, client, userAgent, trace } = head;
  record.trace = tracing.begin(record.startedAt, {
    method,
    path,
    scheme: client.secure ? 'https' : 'http',
    host: client.host.replace(/:\d+$/, ''),
    client: client.address,
    userAgent,
    // If every sender's flag counted, any client could force its requests to be traced.
    parent: trace === undefined || client.behindTrustedProxy ? trace : { ...trace, sampled: undefined },
  });
}

/**
 * Begins the upstream's span, and returns its `traceparent` field.
 * @param target without the path of the upstream's address
 */
export function traceCall(
  trace: RequestTrace,
  { name, addresses }: Upstream,
  method: string,
  target: string,
): string[] {
  // With several addresses, one is chosen later, and a retry may use another.
  const [address] = addresses.length === 1 ? addresses : [];
  const path = (address?.prefix ?? '') + target.split('?', 1)[0];
  return ['traceparent', trace.call({ upstream: name, origin: address?.origin ?? null, method, path })];
}

export function endTrace(trace: RequestTrace, record: RequestRecord): void {
  const { route, status, outcome, subject, upstreamStatus } = record;
  trace.end(
    {
      route,
      status,
      outcome,
      values: {
        'latchkey.request_id': record.requestId,
        'latchkey.credential': subject?.credential,
        'latchkey.customer_id': subject?.user.customerId,
        'user.id': subject?.user.id,
        'latchkey.token_id':
          subject === null || subject.credential === 'session' || subject.credential === 'jwt'
            ? undefined
            : subject.token.id,
      },
    },
    upstreamStatus,
  );
}
