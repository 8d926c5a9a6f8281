import type { Socket } from 'node:net';
import { withoutSegments } from '../domain/path.js';
import { overloaded, type Refusal } from '../domain/refusal.js';
import type { Admitted } from '../gate/gate.js';
import type { ParsedRequest } from '../http/exchange.js';
import { refusalReply } from '../http/replies.js';
import type { UpgradeListener } from './http1-input.js';
import type { RequestHead } from '../http/head.js';
import { endRaw, writeRawReply } from '../http/write-reply.js';
import { openWebSockets } from '../observe/metrics/requests.js';
import {
  type Entrance,
  type Exchange,
  finish,
  handle,
  type Recipient,
  writeRefusal,
} from '../pipeline/handle.js';
import { expiryFields, newRecord, traceCall } from '../pipeline/record.js';
import { refuseWebSocket } from '../upstream/handshake.js';
import type { Services, Serving } from '../pipeline/services.js';
import type { Stream, StreamRevalidator } from '../pipeline/streams.js';
import type { InFlight } from '../upstream/forward.js';

/** The entrance for WebSocket handshakes: allowed ones become a tunnel to the upstream. */
export function createUpgradeListener(serving: Serving, streams: StreamRevalidator): UpgradeListener {
  return (req, socket, headBytes) => {
    socket.on('error', destroyThis);
    handle(new HandshakeExchange(serving, streams, req, socket, headBytes), WEBSOCKET);
  };
}

const SHUTTING_DOWN = overloaded('The server is shutting down');

const WEBSOCKET: Entrance<HandshakeExchange> = {
  forwards: true,
  answersPreflights: false,
  read: ({ services, record, req, serving }) => {
    const head = services.readHead(req);
    // A tunnel opened now would hold up the end.
    if ('refusal' in head || !serving.isDraining) return head;
    record.head = head;
    return SHUTTING_DOWN;
  },
  refusalOf: ({ services }, head, verdict) =>
    verdict.refusal ??
    refuseWebSocket(head, verdict, (upstream) => services.upstreams.named(upstream).settings.protocol),
  allow: openTunnel,
  replyTo: (_exchange, refusal) => refusalReply(refusal),
  write: ({ peer, record }, reply) => writeRawReply(peer, reply, record.requestId),
};

class HandshakeExchange implements Exchange, Stream {
  readonly serving: Serving;
  readonly services: Services;
  readonly streams: StreamRevalidator;
  readonly req: ParsedRequest;
  readonly peer: Socket;
  readonly headBytes: Buffer;
  readonly recipient: Recipient;
  readonly record = newRecord();
  isForwarded = false;
  handshake: InFlight | undefined;
  isOpen = false;

  constructor(
    serving: Serving,
    streams: StreamRevalidator,
    req: ParsedRequest,
    socket: Socket,
    headBytes: Buffer,
  ) {
    this.serving = serving;
    this.services = serving.services;
    this.streams = streams;
    this.req = req;
    this.peer = socket;
    this.headBytes = headBytes;
    this.recipient = recipientOf(socket);
  }

  /** Called when the authorization of the WebSocket, or of its handshake, is no longer valid. */
  abort(reason: Refusal): void {
    const { record, services } = this;
    services.auditor.streamEnded(reason, record);
    if (!this.isOpen) {
      this.handshake?.abort(reason);
      return;
    }
    services.log.info(
      { request_id: record.requestId, detail: reason.refusal },
      'WebSocket closed; no longer allowed',
    );
    this.peer.destroy();
  }
}

function openTunnel(
  exchange: HandshakeExchange,
  head: RequestHead,
  { route }: Admitted,
  identity: readonly string[],
): void {
  const { services, record, peer: socket, streams } = exchange;
  const upstream = services.upstreams.named(route.upstream);
  record.upstream = upstream.name;
  const target = withoutSegments(head.target, route.strippedSegments);
  const fields = services.requestHeaders(head, identity, record.requestId, route.strippedPrefix);
  if (record.trace !== undefined) fields.push(...traceCall(record.trace, upstream, head.method, target));
  record.sentAt = performance.now();
  const expiry = expiryFields(services.expiryWarning, record.subject);
  let refused = false;
  const watched = streams.watch(exchange);
  exchange.handshake = services.upgrade({
    head,
    subject: record.subject,
    socket,
    headBytes: exchange.headBytes,
    upstream,
    target,
    limits: route.limits,
    fields,
    cors: route.cors === null ? null : route.cors.headersFor(head.origin),
    responseFields: ['X-Request-Id', record.requestId, ...expiry],
    refuse: (refusal) => {
      refused = true;
      writeRefusal(exchange, WEBSOCKET, refusal, expiry);
    },
    pass: (response) => endRaw(socket, response),
    fault: (error) => services.logFault(error, 'internal error; WebSocket closed', record.requestId),
    done: ({ status, upstreamAddress }) => {
      record.upstreamAddress = upstreamAddress;
      if (!refused && status !== null) {
        record.status = status;
        record.upstreamStatus = status;
        record.firstByteAt = performance.now();
        record.outcome = 'forwarded';
      }
      finish(exchange);
      exchange.isOpen = status === 101;
      if (!exchange.isOpen) {
        streams.end(watched);
        return;
      }
      openWebSockets.inc();
      socket.once('close', () => {
        openWebSockets.dec();
        streams.end(watched);
      });
    },
  });
  exchange.isForwarded = true;
}

function recipientOf(socket: Socket): Recipient {
  return {
    get destroyed() {
      return socket.destroyed;
    },
    get headersSent() {
      return !socket.writable;
    },
    destroy: () => socket.destroy(),
  };
}

/** A function of the module: a closure would retain the request of its connection. */
function destroyThis(this: Socket): void {
  this.destroy();
}
