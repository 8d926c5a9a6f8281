import type { IncomingMessage } from 'node:http';
import type { Duplex } from 'node:stream';
import { withoutSegments } from '../domain/path.js';
import type { Refusal } from '../domain/refusal.js';
import type { Admitted, Verdict } from '../gate/gate.js';
import type { Reply } from '../http/replies.js';
import type { RequestHead } from '../http/head.js';
import { writeRawReply } from '../http/write-reply.js';
import { countWebSocket } from '../observe/metrics/requests.js';
import { RequestHandler } from '../pipeline/request-handler.js';
import type { Services } from '../pipeline/services.js';
import type { Stream, StreamRevalidator } from '../pipeline/streams.js';
import { refuseHandshake } from '../upstream/handshake.js';
import { leaveErrors } from './pipelining.js';
import type { PublicServer } from './tls.js';

/**
 * The entrance of WebSocket handshakes: what is allowed becomes a tunnel to the upstream.
 *
 * Any other protocol in `Upgrade` is a wish that a server may ignore (RFC 9110 7.8), as common clients
 * expect that send `Upgrade: h2c` on their first request. Such a request is read again without it.
 */
export function createUpgradeListener(
  services: () => Services,
  streams: StreamRevalidator,
  server: () => PublicServer,
) {
  return function onUpgrade(req: IncomingMessage, socket: Duplex, headBytes: Buffer): void {
    if (asksForWebSocket(req)) new HandshakeHandler(services(), streams, req, socket, headBytes).handle();
    else readAgainWithoutUpgrade(server(), req, socket, headBytes);
  };
}

const NOT_A_WEBSOCKET: Refusal = { refusal: 'malformed', detail: 'this endpoint is not a WebSocket' };

class HandshakeHandler extends RequestHandler {
  readonly #streams: StreamRevalidator;
  readonly #req: IncomingMessage;
  readonly #socket: Duplex;
  readonly #headBytes: Buffer;
  #isCarried = false;

  constructor(
    services: Services,
    streams: StreamRevalidator,
    req: IncomingMessage,
    socket: Duplex,
    headBytes: Buffer,
  ) {
    super(services);
    this.#streams = streams;
    this.#req = req;
    this.#socket = socket;
    this.#headBytes = headBytes;
  }

  protected readHead(): RequestHead | Refusal {
    return this.services.readHead(this.#req);
  }

  protected override refusalOf(head: RequestHead, verdict: Verdict): Refusal | undefined {
    if (verdict.refusal !== undefined) return verdict.refusal;
    return verdict.route.endpoint === null ? refuseHandshake(head) : NOT_A_WEBSOCKET;
  }

  protected get isGone(): boolean {
    return this.#socket.destroyed;
  }

  protected get hasAnswered(): boolean {
    return !this.#socket.writable;
  }

  protected destroy(): boolean {
    this.#socket.destroy();
    return this.#isCarried;
  }

  protected write(reply: Reply): void {
    writeRawReply(this.#socket, reply, this.record.requestId);
  }

  protected answerEndpoint(): void {
    this.refuse(NOT_A_WEBSOCKET);
  }

  protected allow(head: RequestHead, { route, subject }: Admitted, identity: readonly string[]): void {
    const { services, record } = this;
    const socket = this.#socket;
    const upstream = this.upstreamOf(route);
    const target = withoutSegments(head.target, route.strippedSegments);
    const fields = this.fieldsFor(head, identity, upstream, target);
    record.sentAt = performance.now();
    let refused = false;
    services.upgrade({
      head,
      socket,
      headBytes: this.#headBytes,
      upstream,
      target,
      fields,
      responseFields: ['X-Request-Id', record.requestId],
      refuse: (refusal) => {
        refused = true;
        this.writeRefusal(refusal, []);
      },
      fault: (error) => services.logFault(error, 'WebSocket ended because of a fault', record.requestId),
      done: ({ status }) => {
        if (!refused && status !== null) {
          record.status = status;
          record.upstreamStatus = status;
          record.firstByteAt = performance.now();
          record.outcome = 'forwarded';
        }
        this.finish();
        if (status !== 101) return;
        countOpen(socket);
        if (subject !== null) this.#watch(head);
      },
    });
    this.#isCarried = true;
  }

  /** A WebSocket ends when what it was let in with no longer holds. */
  #watch(head: RequestHead): void {
    const { record, services } = this;
    const socket = this.#socket;
    const stream: Stream = {
      head,
      abort: (reason) => {
        services.log.info(
          { request_id: record.requestId, detail: reason.refusal },
          'WebSocket ended by recheck',
        );
        services.auditor.streamEnded(reason, record);
        socket.destroy();
      },
    };
    const watched = this.#streams.watch(stream);
    socket.once('close', () => this.#streams.end(watched));
  }
}

function countOpen(socket: Duplex): void {
  countWebSocket(1);
  socket.once('close', () => countWebSocket(-1));
}

/** Whether a request asks for the one protocol that is carried (RFC 6455 4.1: HTTP/1.1 at least). */
export function asksForWebSocket(req: IncomingMessage): boolean {
  return req.httpVersion === '1.1' && req.headers.upgrade?.toLowerCase() === 'websocket';
}

/**
 * Gives the connection back to the parser with the same head, less the wish to change protocols.
 * Node before 24.9 has no `shouldUpgradeCallback`, which would have left it there.
 */
function readAgainWithoutUpgrade(
  server: PublicServer,
  req: IncomingMessage,
  socket: Duplex,
  rest: Buffer,
): void {
  let head = `${req.method} ${req.url} HTTP/${req.httpVersion}\r\n`;
  for (let i = 0; i < req.rawHeaders.length; i += 2) {
    const name = req.rawHeaders[i] ?? '';
    if (/^(?:upgrade|http2-settings)$/i.test(name)) continue;
    const value = req.rawHeaders[i + 1] ?? '';
    head += `${name}: ${/^connection$/i.test(name) ? withoutUpgrade(value) : value}\r\n`;
  }
  leaveErrors(socket);
  socket.unshift(Buffer.concat([Buffer.from(`${head}\r\n`, 'latin1'), rest]));
  server.emit('encrypted' in socket ? 'secureConnection' : 'connection', socket);
}

function withoutUpgrade(connection: string): string {
  return connection
    .split(',')
    .filter((option) => !/^\s*(?:upgrade|http2-settings)\s*$/i.test(option))
    .join(',');
}
