import type { IncomingRequest, OutgoingResponse, ParsedRequest, Serve } from '../http/exchange.js';
import { networkOf } from '../util/addresses.js';
import { isRead } from '../domain/methods.js';
import { withoutSegments } from '../domain/path.js';
import type { Refusal } from '../domain/refusal.js';
import type { Call } from '../endpoints/endpoint.js';
import { parseBodyOf } from '../endpoints/endpoints.js';
import type { Admitted } from '../gate/verdict.js';
import { type Reply, refusalReply, withCors, withHeaders } from '../http/replies.js';
import { joinFields } from '../http/fields.js';
import { grpcReply, isGrpcCall } from '../http/http2-fields.js';
import type { RequestHead } from '../http/head.js';
import { loginRedirect } from '../pipeline/login-redirect.js';
import { anonymousBodies, readBody } from '../http/read-body.js';
import { writeReply } from '../http/write-reply.js';
import { rateLimitFields } from '../pipeline/response-fields.js';
import { noteRoute } from '../pipeline/record.js';
import { RequestHandler } from '../pipeline/request-handler.js';
import type { Services } from '../pipeline/services.js';
import { traceCall } from '../pipeline/trace.js';
import type { Stream, StreamRevalidator, WatchedStream } from '../pipeline/streams.js';
import type { ForwardOutcome, ForwardOwner, InFlight } from '../upstream/forward-request.js';

/**
 * The entrance for HTTP/1.1 and HTTP/2: allowed requests are forwarded, or served by a built-in endpoint.
 * @param services returns the current services; a request keeps those that it began with, unless a built-in
 *   endpoint waits for its body
 */
export function createRequestListener(services: () => Services, streams: StreamRevalidator): Serve {
  return (req, res) => new HttpRequestHandler(services, streams, req, res).handle();
}

/** Returns the reply to a refusal outside any handler. @param req undefined when none was parsed */
export function refusalOutside({ cors, readHead }: Services, refusal: Refusal, req?: ParsedRequest): Reply {
  const reply = refusalReply(refusal);
  if (cors === null || req === undefined) return reply;
  const head = readHead(req);
  const said = cors.headersFor('refusal' in head ? null : head, req.rawHeaders);
  return said === null ? reply : withCors(reply, said);
}

const OUTCOME_OF_ABORT = {
  client: 'aborted_by_client',
  upstream: 'aborted_by_upstream',
  abort: 'ended_by_recheck',
  yielded: 'overloaded',
} as const;

class HttpRequestHandler extends RequestHandler implements ForwardOwner, Stream {
  readonly #current: () => Services;
  readonly #streams: StreamRevalidator;
  readonly #req: IncomingRequest;
  readonly #res: OutgoingResponse;
  #inFlight: InFlight | undefined;
  #watched: WatchedStream | undefined;
  /** Stops reading a body for a built-in endpoint. */
  #reading: AbortController | undefined;
  /** Response fields about rate limits and the expiry of the token, flat. */
  #limitFields: readonly string[] = [];
  #isPreflight = false;

  constructor(
    current: () => Services,
    streams: StreamRevalidator,
    req: IncomingRequest,
    res: OutgoingResponse,
  ) {
    super(current(), req.socket, res, true);
    this.#current = current;
    this.#streams = streams;
    this.#req = req;
    this.#res = res;
  }

  protected readHead(): RequestHead | Refusal {
    return this.services.readHead(this.#req);
  }

  protected override answerOf(refusal: Refusal): Reply {
    const { head, loginPath } = this.record;
    const redirect = head === null ? null : loginRedirect(head, refusal, loginPath, this.services);
    return redirect ?? super.answerOf(refusal);
  }

  /** A preflight is answered by its route's CORS rules: browsers send no credential with it. */
  protected override answersAtOnce(head: RequestHead): boolean {
    const preflight = this.services.cors?.preflight(head);
    if (preflight === undefined) return false;
    this.#isPreflight = true;
    noteRoute(this.record, preflight.route);
    this.answer({ status: 204, headers: preflight.fields }, preflight.outcome);
    return true;
  }

  /** A gRPC client receives a refusal in its own protocol. */
  protected write(plain: Reply, isRefusal: boolean): void {
    const { cors } = this.services;
    const reply = isRefusal && isGrpcCall(this.#req) ? grpcReply(plain) : plain;
    const said =
      cors === null || this.#isPreflight ? null : cors.headersFor(this.record.head, this.#req.rawHeaders);
    writeReply(this.#req, this.#res, said === null ? reply : withCors(reply, said), this.record.requestId);
  }

  protected override answerEndpoint(head: RequestHead, admitted: Admitted, name: string): void {
    this.#serve(head, admitted, name).catch((error: unknown) => this.fault(error));
  }

  async #serve(head: RequestHead, first: Admitted, name: string): Promise<void> {
    const { auditor } = this.services;
    if (!isRead(head.method) || first.route.endpoint?.writes === true) auditor.ensureWritable();
    if (head.expectsContinue) this.#res.writeContinue();
    const waits = !this.#req.readableEnded;
    const bytes = await this.#readBody(head, waits && first.subject === null);
    if (bytes === undefined) {
      this.finish();
      return;
    }
    const body = Buffer.isBuffer(bytes) ? parseBodyOf(name, bytes, head.contentType) : bytes;
    if ('refusal' in body) {
      this.refuse(body);
      return;
    }
    const services = waits ? this.#current() : this.services;
    const admitted = waits ? await this.judgeAgain(head, first, services) : first;
    if (admitted === undefined) return;
    if (admitted.route.endpoint?.name !== name) {
      this.refuse({ refusal: 'overloaded', detail: 'The configuration changed; repeat the request' });
      return;
    }
    await this.#call(services, name, { head, path: admitted.path, body, subject: admitted.subject, now: Date.now() });
  } // prettier-ignore

  /** A client may take its time, so the request is refused when it is no longer allowed. */
  async #readBody(head: RequestHead, isAnonymous: boolean): Promise<Buffer | Refusal | undefined> {
    const { bodyLimits } = this.services;
    const shared = isAnonymous ? { budget: anonymousBodies, network: networkOf(head.client.address) } : null;
    this.#reading = new AbortController();
    this.#watched = this.#streams.watch(this);
    try {
      return await readBody(this.#req, head.contentLength, bodyLimits, shared, this.#reading.signal);
    } finally {
      this.#reading = undefined;
      this.#streams.end(this.#watched);
    }
  }

  async #call({ handlerOf, auditor }: Services, name: string, call: Call): Promise<void> {
    const handler = handlerOf(name);
    const { trace } = this.record;
    const answer = await this.#streams.act(call.subject, () =>
      trace === undefined ? handler(call) : trace.run(() => handler(call)),
    );
    if ('refusal' in answer) this.refuse(answer);
    else {
      try {
        auditor.record(answer.auditEvents, this.record);
        const last = answer.after === undefined ? answer : await answer.after();
        this.answer(withHeaders(last, this.expiryFields()), 'answered');
      } finally {
        if (answer.sent !== undefined) this.#whenSent(answer.sent);
      }
    }
  }

  #whenSent(sent: () => void): void {
    const res = this.#res;
    // An HTTP/2 stream asks for no `drain` once it has ended, but always closes.
    const isPending = 'stream' in this.#req || res.writableNeedDrain;
    if (isPending && !res.destroyed) res.once('close', sent);
    else sent();
  }

  protected allow(head: RequestHead, { route, writes }: Admitted, identity: readonly string[]): void {
    const { services, record } = this;
    const upstream = services.upstreamOf(route.upstream);
    record.upstream = upstream.name;
    const writesLeft = rateLimitFields(services.rateLimitNames, writes);
    this.#limitFields = joinFields(writesLeft, this.expiryFields());
    const { strippedSegments: stripped } = route;
    const target = stripped === 0 ? head.target : withoutSegments(head.target, stripped);
    const fields = services.requestHeaders(head, identity, record.requestId, route.strippedPrefix);
    if (record.trace !== undefined) fields.push(...traceCall(record.trace, upstream, head.method, target));
    this.#watched = this.#streams.watch(this);
    this.#inFlight = services.forward({
      head,
      req: this.#req,
      res: this.#res,
      upstream,
      target,
      limits: route.limits,
      fields,
      responseFields: ['X-Request-Id', record.requestId, ...this.#limitFields],
      allowsServiceWorker: route.allowsServiceWorker,
      cors: route.cors === null ? null : route.cors.headersFor(head.origin),
      owner: this,
    });
    this.isForwarded = true;
  }

  forwardRefused(refusal: Refusal): void {
    try {
      this.writeRefusal(refusal, this.#limitFields);
    } catch (error) {
      this.fault(error);
    }
  }

  forwardEnded(outcome: ForwardOutcome): void {
    try {
      this.#forwarded(outcome);
    } catch (error) {
      this.fault(error);
    }
  }

  #forwarded({ status, aborted, sentAt, firstByteAt }: ForwardOutcome): void {
    const { record } = this;
    this.#streams.end(this.#watched);
    record.sentAt = sentAt;
    record.firstByteAt = firstByteAt;
    record.upstreamStatus = status;
    if (record.outcome === 'aborted') {
      record.status = status;
      record.outcome = aborted === null ? 'forwarded' : OUTCOME_OF_ABORT[aborted];
    }
    this.finish();
  }

  abort(reason: Refusal): void {
    if (this.#reading !== undefined) {
      this.#reading.abort(reason);
      return;
    }
    this.record.detail = reason.refusal;
    this.services.auditor.streamEnded(reason, this.record);
    this.#inFlight?.abort(reason);
  }
}
