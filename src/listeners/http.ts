import type { IncomingRequest, OutgoingResponse, ParsedRequest, Serve } from '../http/exchange.js';
import { networkOf } from '../util/addresses.js';
import { isRead } from '../domain/methods.js';
import { withoutSegments } from '../domain/path.js';
import { overloaded, type Refusal } from '../domain/refusal.js';
import type { Call } from '../endpoints/endpoint.js';
import { parseBodyOf } from '../endpoints/endpoints.js';
import type { Admitted } from '../gate/gate.js';
import { type Reply, refusalReply, withCors, withHeaders } from '../http/replies.js';
import { joinFields } from '../http/fields.js';
import { grpcReply, isGrpcCall } from '../http/http2-fields.js';
import type { RequestHead } from '../http/head.js';
import { loginRedirect } from '../pipeline/browsers.js';
import { anonymousBodies, readBody } from '../http/read-body.js';
import { writeReply } from '../http/write-reply.js';
import {
  answer,
  type Entrance,
  type Exchange,
  fault,
  finish,
  handle,
  judgeAgain,
  refuse,
  writeRefusal,
} from '../pipeline/handle.js';
import { expiryFields, newRecord, rateLimitFields, traceCall } from '../pipeline/record.js';
import type { Services, Serving } from '../pipeline/services.js';
import type { Stream, StreamRevalidator, WatchedStream } from '../pipeline/streams.js';
import type { ForwardOutcome, ForwardOwner, InFlight } from '../upstream/forward.js';

/**
 * The entrance for HTTP/1.1 and HTTP/2: allowed requests are forwarded, or served by a built-in endpoint, with
 * the current services if it had to wait for its body.
 */
export function createRequestListener(serving: Serving, streams: StreamRevalidator): Serve {
  return (req, res) => handle(new HttpExchange(serving, streams, req, res), HTTP);
}

/** Returns the reply to a refusal outside any handler. @param req undefined when none was parsed */
export function refusalOutside({ cors, readHead }: Services, refusal: Refusal, req?: ParsedRequest): Reply {
  const reply = refusalReply(refusal);
  if (cors === null || req === undefined) return reply;
  const head = readHead(req);
  const said = cors.headersFor('refusal' in head ? null : head, req.rawHeaders);
  return said === null ? reply : withCors(reply, said);
}

const HTTP: Entrance<HttpExchange> = {
  forwards: true,
  answersPreflights: true,
  read: ({ services, req }) => services.readHead(req),
  refusalOf: (_exchange, _head, verdict) => verdict.refusal,
  allow: (exchange, head, admitted, identity) => {
    const { endpoint } = admitted.route;
    if (endpoint === null) forward(exchange, head, admitted, identity);
    else
      serve(exchange, head, admitted, endpoint.name).catch((error: unknown) => fault(exchange, HTTP, error));
  },
  replyTo: ({ record: { head, loginPath }, services }, refusal) =>
    (head === null ? null : loginRedirect(head, refusal, loginPath, services.pages)) ?? refusalReply(refusal),
  /** A gRPC client receives a refusal in its own protocol. */
  write: ({ services: { cors }, record, req, recipient }, plain, isRefusal) => {
    const reply = isRefusal && isGrpcCall(req) ? grpcReply(plain) : plain;
    const isPreflight = record.outcome === 'preflight' || record.outcome === 'preflight_refused';
    const said = cors === null || isPreflight ? null : cors.headersFor(record.head, req.rawHeaders);
    writeReply(req, recipient, said === null ? reply : withCors(reply, said), record.requestId);
  },
};

const OUTCOME_OF_ABORT = {
  client: 'aborted_by_client',
  upstream: 'aborted_by_upstream',
  abort: 'ended_by_recheck',
  yielded: 'overloaded',
} as const;

class HttpExchange implements Exchange, ForwardOwner, Stream {
  readonly serving: Serving;
  readonly services: Services;
  readonly streams: StreamRevalidator;
  readonly req: IncomingRequest;
  readonly peer: IncomingRequest['socket'];
  readonly recipient: OutgoingResponse;
  readonly record = newRecord();
  isForwarded = false;
  inFlight: InFlight | undefined;
  watched: WatchedStream | undefined;
  /** Stops reading a body for a built-in endpoint. */
  reading: AbortController | undefined;
  /** Response fields about rate limits and the expiry of the token, flat. */
  limitFields: readonly string[] = [];

  constructor(serving: Serving, streams: StreamRevalidator, req: IncomingRequest, res: OutgoingResponse) {
    this.serving = serving;
    this.services = serving.services;
    this.streams = streams;
    this.req = req;
    this.peer = req.socket;
    this.recipient = res;
  }

  forwardRefused(refusal: Refusal): void {
    try {
      writeRefusal(this, HTTP, refusal, this.limitFields);
    } catch (error) {
      fault(this, HTTP, error);
    }
  }

  forwardEnded({ status, upstreamAddress, aborted, sentAt, firstByteAt }: ForwardOutcome): void {
    const { record } = this;
    this.streams.end(this.watched);
    record.upstreamAddress = upstreamAddress;
    record.sentAt = sentAt;
    record.firstByteAt = firstByteAt;
    record.upstreamStatus = status;
    if (record.outcome === 'aborted') {
      record.status = status;
      record.outcome = aborted === null ? 'forwarded' : OUTCOME_OF_ABORT[aborted];
    }
    try {
      finish(this);
    } catch (error) {
      fault(this, HTTP, error);
    }
  }

  abort(reason: Refusal): void {
    if (this.reading !== undefined) {
      this.reading.abort(reason);
      return;
    }
    this.record.detail = reason.refusal;
    this.services.auditor.streamEnded(reason, this.record);
    this.inFlight?.abort(reason);
  }
}

function forward(
  exchange: HttpExchange,
  head: RequestHead,
  { route, writes }: Admitted,
  identity: readonly string[],
): void {
  const { services, record } = exchange;
  const upstream = services.upstreams.named(route.upstream);
  record.upstream = upstream.name;
  const writesLeft = rateLimitFields(services.rateLimitNames, writes);
  exchange.limitFields = joinFields(writesLeft, expiryFields(services.expiryWarning, record.subject));
  const { strippedSegments: stripped } = route;
  const target = stripped === 0 ? head.target : withoutSegments(head.target, stripped);
  const fields = services.requestHeaders(head, identity, record.requestId, route.strippedPrefix);
  if (record.trace !== undefined) fields.push(...traceCall(record.trace, upstream, head.method, target));
  exchange.watched = exchange.streams.watch(exchange);
  exchange.inFlight = services.forward({
    head,
    req: exchange.req,
    res: exchange.recipient,
    upstream,
    target,
    limits: route.limits,
    fields,
    responseFields: ['X-Request-Id', record.requestId, ...exchange.limitFields],
    allowsServiceWorker: route.allowsServiceWorker,
    cors: route.cors === null ? null : route.cors.headersFor(head.origin),
    subject: record.subject,
    owner: exchange,
  });
  exchange.isForwarded = true;
}

/** Runs a built-in endpoint once the body has arrived. */
async function serve(
  exchange: HttpExchange,
  head: RequestHead,
  first: Admitted,
  name: string,
): Promise<void> {
  const { req, recipient } = exchange;
  const { auditor } = exchange.services;
  if (!isRead(head.method) || first.route.endpoint?.writes === true) auditor.ensureWritable();
  if (head.expectsContinue) recipient.writeContinue();
  const waits = !req.readableEnded;
  const bytes = await readBodyOf(exchange, head, waits && first.subject === null);
  if (bytes === undefined) {
    finish(exchange);
    return;
  }
  const body = Buffer.isBuffer(bytes) ? parseBodyOf(name, bytes, head.contentType) : bytes;
  if ('refusal' in body) {
    refuse(exchange, HTTP, body);
    return;
  }
  const services = (waits ? exchange.serving : exchange).services;
  const admitted = waits ? await judgeAgain(exchange, HTTP, head, first, services) : first;
  if (admitted === undefined) return;
  if (admitted.route.endpoint?.name !== name) {
    refuse(exchange, HTTP, overloaded('The configuration changed; repeat the request'));
    return;
  }
  const { path, subject } = admitted;
  await call(exchange, services, name, { head, path, body, subject, now: Date.now() });
}

/** A client may take its time, so the request is refused when it is no longer allowed. */
async function readBodyOf(
  exchange: HttpExchange,
  head: RequestHead,
  isAnonymous: boolean,
): Promise<Buffer | Refusal | undefined> {
  const { bodyLimits } = exchange.services;
  const shared = isAnonymous ? { budget: anonymousBodies, network: networkOf(head.client.address) } : null;
  exchange.reading = new AbortController();
  exchange.watched = exchange.streams.watch(exchange);
  try {
    return await readBody(exchange.req, head.contentLength, bodyLimits, shared, exchange.reading.signal);
  } finally {
    exchange.reading = undefined;
    exchange.streams.end(exchange.watched);
  }
}

async function call(
  exchange: HttpExchange,
  { handlerOf, auditor }: Services,
  name: string,
  given: Call,
): Promise<void> {
  const { record, services } = exchange;
  const handler = handlerOf(name);
  const { trace } = record;
  const result = await exchange.streams.act(given.subject, () =>
    trace === undefined ? handler(given) : trace.run(() => handler(given)),
  );
  if ('refusal' in result) {
    refuse(exchange, HTTP, result);
    return;
  }
  try {
    auditor.record(result.auditEvents, record);
    const last = result.after === undefined ? result : await result.after();
    const expiry = expiryFields(services.expiryWarning, record.subject);
    answer(exchange, HTTP, withHeaders(last, expiry), 'answered');
  } finally {
    if (result.sent !== undefined) whenSent(exchange, result.sent);
  }
}

function whenSent({ req, recipient }: HttpExchange, sent: () => void): void {
  // An HTTP/2 stream asks for no `drain` once it has ended, but always closes.
  const isPending = 'stream' in req || recipient.writableNeedDrain;
  if (isPending && !recipient.destroyed) recipient.once('close', sent);
  else sent();
}
