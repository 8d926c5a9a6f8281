import type { Socket } from 'node:net';
import type { Subject } from '../domain/credential.js';
import { withoutSegments } from '../domain/path.js';
import type { Refusal } from '../domain/refusal.js';
import type { Admitted } from '../gate/verdict.js';
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
import { expiryFields, newRecord, newRequestId, traceCall } from '../pipeline/record.js';
import { refuseWebSocket } from '../upstream/handshake.js';
import type { Services } from '../pipeline/services.js';
import type { Stream, StreamRevalidator } from '../pipeline/streams.js';
import type { InFlight } from '../upstream/forward.js';

/**
 * Allowed WebSocket handshakes become a tunnel to the upstream.
 * @param isDraining whether the server is shutting down; tunnels opened then would hold it up
 */
export function createUpgradeListener(
  services: () => Services,
  streams: StreamRevalidator,
  isDraining: () => boolean,
): UpgradeListener {
  return (req, socket, headBytes) => {
    closeAtError(socket);
    handle(new HandshakeExchange(services(), streams, isDraining, req, socket, headBytes), WEBSOCKET);
  };
}

const SHUTTING_DOWN: Refusal = { refusal: 'overloaded', detail: 'The server is shutting down' };

const WEBSOCKET: Entrance<HandshakeExchange> = {
  forwards: true,
  answersPreflights: false,
  read: ({ services, record, req, isDraining }) => {
    const head = services.readHead(req);
    if ('refusal' in head || !isDraining()) return head;
    record.head = head;
    return SHUTTING_DOWN;
  },
  refusalOf: ({ services }, head, verdict) =>
    verdict.refusal ??
    refuseWebSocket(head, verdict, (upstream) => services.upstreams.named(upstream).settings.protocol),
  allow: openTunnel,
  replyTo: (_exchange, refusal) => refusalReply(refusal),
  write: ({ socket, record }, reply) => writeRawReply(socket, reply, record.requestId),
};

class HandshakeExchange implements Exchange, Stream {
  readonly services: Services;
  readonly streams: StreamRevalidator;
  readonly isDraining: () => boolean;
  readonly req: ParsedRequest;
  readonly socket: Socket;
  readonly headBytes: Buffer;
  readonly recipient: Recipient;
  readonly record = newRecord(newRequestId());
  isForwarded = false;
  handshake: InFlight | undefined;
  isOpen = false;

  constructor(
    services: Services,
    streams: StreamRevalidator,
    isDraining: () => boolean,
    req: ParsedRequest,
    socket: Socket,
    headBytes: Buffer,
  ) {
    this.services = services;
    this.streams = streams;
    this.isDraining = isDraining;
    this.req = req;
    this.socket = socket;
    this.headBytes = headBytes;
    this.recipient = recipientOf(socket);
  }

  get peer(): Socket {
    return this.socket;
  }

  get head(): RequestHead {
    return this.record.head as RequestHead;
  }

  get subject(): Subject | null {
    return this.record.subject;
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
    this.socket.destroy();
  }
}

function openTunnel(
  exchange: HandshakeExchange,
  head: RequestHead,
  { route }: Admitted,
  identity: readonly string[],
): void {
  const { services, record, socket, streams } = exchange;
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
      countOpen(socket);
      socket.once('close', () => streams.end(watched));
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

/**
 * Closes a connection at its first error. All connections share the listener: a closure would retain its
 * request.
 */
function closeAtError(connection: Socket): void {
  connection.on('error', destroyThis);
}

function destroyThis(this: Socket): void {
  this.destroy();
}

function countOpen(socket: Socket): void {
  openWebSockets.inc();
  socket.once('close', () => openWebSockets.dec());
}
