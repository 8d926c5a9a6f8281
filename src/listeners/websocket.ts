import type { Socket } from 'node:net';
import { withoutSegments } from '../domain/path.js';
import type { Refusal } from '../domain/refusal.js';
import type { Admitted, Verdict } from '../gate/verdict.js';
import type { ParsedRequest } from '../http/exchange.js';
import type { Reply } from '../http/replies.js';
import type { UpgradeListener } from './http1-settings.js';
import type { RequestHead } from '../http/head.js';
import { endRaw, writeRawReply } from '../http/write-reply.js';
import { openWebSockets } from '../observe/metrics/requests.js';
import { type Recipient, RequestHandler } from '../pipeline/request-handler.js';
import { refuseWebSocket } from '../pipeline/handshakes.js';
import type { Services } from '../pipeline/services.js';
import { traceCall } from '../pipeline/trace.js';
import type { Stream, StreamRevalidator, WatchedStream } from '../pipeline/streams.js';
import type { InFlight } from '../upstream/forward-request.js';

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
    new HandshakeHandler(services(), streams, isDraining, req, socket, headBytes).handle();
  };
}

const SHUTTING_DOWN: Refusal = { refusal: 'overloaded', detail: 'The server is shutting down' };

class HandshakeHandler extends RequestHandler implements Stream {
  readonly #streams: StreamRevalidator;
  readonly #isDraining: () => boolean;
  readonly #req: ParsedRequest;
  readonly #socket: Socket;
  readonly #headBytes: Buffer;
  #watched: WatchedStream | undefined;
  #handshake: InFlight | undefined;
  #isOpen = false;

  constructor(
    services: Services,
    streams: StreamRevalidator,
    isDraining: () => boolean,
    req: ParsedRequest,
    socket: Socket,
    headBytes: Buffer,
  ) {
    super(services, socket, recipientOf(socket), true);
    this.#streams = streams;
    this.#isDraining = isDraining;
    this.#req = req;
    this.#socket = socket;
    this.#headBytes = headBytes;
  }

  protected readHead(): RequestHead | Refusal {
    return this.services.readHead(this.#req);
  }

  protected override answersAtOnce(): boolean {
    const isDraining = this.#isDraining();
    if (isDraining) this.refuse(SHUTTING_DOWN);
    return isDraining;
  }

  protected override refusalOf(head: RequestHead, verdict: Verdict): Refusal | undefined {
    if (verdict.refusal !== undefined) return verdict.refusal;
    const { services } = this;
    return refuseWebSocket(head, verdict, (upstream) => services.upstreamOf(upstream).settings.protocol);
  }

  protected write(reply: Reply): void {
    writeRawReply(this.#socket, reply, this.record.requestId);
  }

  protected allow(head: RequestHead, { route }: Admitted, identity: readonly string[]): void {
    const { services, record } = this;
    const socket = this.#socket;
    const upstream = services.upstreamOf(route.upstream);
    record.upstream = upstream.name;
    const target = withoutSegments(head.target, route.strippedSegments);
    const fields = services.requestHeaders(head, identity, record.requestId, route.strippedPrefix);
    if (record.trace !== undefined) fields.push(...traceCall(record.trace, upstream, head.method, target));
    record.sentAt = performance.now();
    let refused = false;
    this.#watched = this.#streams.watch(this);
    this.#handshake = services.upgrade({
      head,
      subject: record.subject,
      socket,
      headBytes: this.#headBytes,
      upstream,
      target,
      limits: route.limits,
      fields,
      cors: route.cors === null ? null : route.cors.headersFor(head.origin),
      responseFields: ['X-Request-Id', record.requestId, ...this.expiryFields()],
      refuse: (refusal) => {
        refused = true;
        this.writeRefusal(refusal, this.expiryFields());
      },
      pass: (response) => endRaw(socket, response),
      fault: (error) => services.logFault(error, 'internal error; WebSocket closed', record.requestId),
      done: ({ status }) => {
        if (!refused && status !== null) {
          record.status = status;
          record.upstreamStatus = status;
          record.firstByteAt = performance.now();
          record.outcome = 'forwarded';
        }
        this.finish();
        this.#isOpen = status === 101;
        if (!this.#isOpen) {
          this.#streams.end(this.#watched);
          return;
        }
        countOpen(socket);
        socket.once('close', () => this.#streams.end(this.#watched));
      },
    });
    this.isForwarded = true;
  }

  /** Called when the authorization of the WebSocket, or of its handshake, is no longer valid. */
  abort(reason: Refusal): void {
    const { record, services } = this;
    services.auditor.streamEnded(reason, record);
    if (!this.#isOpen) {
      this.#handshake?.abort(reason);
      return;
    }
    services.log.info(
      { request_id: record.requestId, detail: reason.refusal },
      'WebSocket closed; no longer allowed',
    );
    this.#socket.destroy();
  }
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
