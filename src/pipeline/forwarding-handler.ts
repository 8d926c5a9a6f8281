import type { Subject } from '../domain/credential.js';
import { withoutSegments } from '../domain/path.js';
import type { Refusal } from '../domain/refusal.js';
import type { BoundRequest } from '../gate/assertion.js';
import type { RequestHead } from '../http/head.js';
import type { Route } from '../policy/route.js';
import type { Upstream } from '../upstream/upstreams.js';
import { RequestHandler } from './request-handler.js';
import type { Services } from './services.js';
import type { Stream, StreamRevalidator, WatchedStream } from './streams.js';
import { traceCall } from './trace.js';

export abstract class ForwardingHandler extends RequestHandler implements Stream {
  protected readonly streams: StreamRevalidator;
  #watched: WatchedStream | undefined;

  constructor(services: Services, streams: StreamRevalidator) {
    super(services);
    this.streams = streams;
  }

  abstract abort(reason: Refusal): void;

  get head(): RequestHead {
    return this.record.head as RequestHead;
  }

  get subject(): Subject | null {
    return this.record.subject;
  }

  protected watch(): void {
    this.#watched = this.streams.watch(this);
  }

  protected endWatch(): void {
    if (this.#watched !== undefined) this.streams.end(this.#watched);
  }

  /** The request that an assertion is bound to: with the target as the upstream receives it. */
  protected override boundRequest({ method, target }: RequestHead, route: Route): BoundRequest {
    const { services, record } = this;
    const { addresses } = services.upstreamOf(route.upstream ?? services.defaultUpstream);
    // The configuration check ensured that all addresses have the same path.
    const prefix = addresses[0]?.prefix ?? '';
    return {
      method,
      target: prefix + withoutSegments(target, route.strippedSegments),
      requestId: record.requestId,
    };
  }

  protected upstreamOf(route: Route): Upstream {
    const name = route.upstream ?? this.services.defaultUpstream;
    this.record.upstream = name;
    return this.services.upstreamOf(name);
  }

  /** @param target without the path of the upstream's address */
  protected fieldsFor(
    head: RequestHead,
    identity: readonly string[],
    upstream: Upstream,
    target: string,
    route: Route,
  ): string[] {
    const { requestId, trace } = this.record;
    const fields = this.services.requestHeaders(head, identity, requestId, route.strippedPrefix);
    if (trace !== undefined) fields.push(...traceCall(trace, upstream, head.method, target));
    return fields;
  }
}
