import type { IncomingMessage } from 'node:http';
import type { Duplex } from 'node:stream';
import { withoutSegments } from '../../domain/path.js';
import type { Refusal } from '../../domain/refusal.js';
import type { Admitted } from '../../gate/gate.js';
import { answerRefusal } from '../../http/answers.js';
import type { RequestHead } from '../../http/head.js';
import { writeRawAnswer } from '../../http/write-answer.js';
import { refuseHandshake, type Upgrade } from '../../proxy/upgrade.js';
import { faultRefusal } from './faults.js';
import { countWebSocket } from '../../observe/metrics/requests.js';
import { finishRecord, newRecord, noteVerdict, type RequestRecord } from './record.js';
import { beginTrace, judge, traceCall } from './request-trace.js';
import type { PublicServer } from './listener.js';
import type { House } from './request.js';
import { newRequestId } from './request-id.js';
import type { Stream, Streams } from './streams.js';
import { whenAnswered } from './turns.js';

/**
 * The entrance for WebSocket handshakes: the same head reader and the same gate, then the upgrade.
 *
 * Any other protocol in `Upgrade` is a wish that a server may ignore (RFC 9110 7.8), as common clients
 * expect that send `Upgrade: h2c` on their first request. Such a request is read again without it.
 */
export function createUpgradeListener(
  rooms: () => { readonly house: House; readonly upgrade: Upgrade },
  streams: Streams,
  server: () => PublicServer,
) {
  return function onUpgrade(req: IncomingMessage, socket: Duplex, headBytes: Buffer): void {
    socket.on('error', () => socket.destroy());
    // Its answer would fall into the middle of the one that is under way.
    whenAnswered(socket, () => {
      if (asksForWebSocket(req)) shakeHands(req, socket, headBytes);
      else readAgainWithoutUpgrade(server(), req, socket, headBytes);
    });
  };

  function shakeHands(req: IncomingMessage, socket: Duplex, headBytes: Buffer): void {
    const { house, upgrade } = rooms();
    const record = newRecord(newRequestId());
    const refuse = (refusal: Refusal): void => {
      const answer = answerRefusal(refusal);
      record.outcome = refusal.refusal;
      record.status = answer.status;
      house.auditor.refused(refusal, record);
      writeRawAnswer(socket, answer, record.requestId);
      finishRecord(record, house.accessLog);
    };
    walk(house, upgrade, { req, socket, headBytes, record, refuse, streams }).catch((error: unknown) => {
      house.logFault(error, 'handshake refused because of a fault', record.requestId);
      refuse(faultRefusal(error));
    });
  }
}

interface Handshake {
  readonly req: IncomingMessage;
  readonly socket: Duplex;
  readonly headBytes: Buffer;
  readonly record: RequestRecord;
  readonly refuse: (refusal: Refusal) => void;
  readonly streams: Streams;
}

async function walk(house: House, upgrade: Upgrade, handshake: Handshake): Promise<void> {
  const { req, record, refuse } = handshake;
  const { gate, tracing } = house;
  const head = house.readHead(req);
  if (tracing !== undefined) beginTrace(tracing, record, 'refusal' in head ? null : head);
  if ('refusal' in head) {
    refuse(head);
    return;
  }
  record.head = head;
  const verdict = await judge(record.trace, gate, head);
  noteVerdict(record, verdict);
  if (verdict.refusal !== undefined) {
    refuse(verdict.refusal);
    return;
  }
  const malformed =
    verdict.route.endpoint === null
      ? refuseHandshake(head)
      : ({ refusal: 'malformed', detail: 'this endpoint is no WebSocket' } as const);
  if (malformed !== undefined) {
    refuse(malformed);
    return;
  }
  const { subject } = verdict;
  const identity = subject === null ? [] : await house.identify(subject, Date.now());
  carry(house, upgrade, handshake, head, verdict, identity);
}

function carry(
  house: House,
  upgrade: Upgrade,
  { socket, headBytes, record, refuse, streams }: Handshake,
  head: RequestHead,
  { route, subject }: Admitted,
  identity: readonly string[],
): void {
  const name = route.upstream ?? house.defaultUpstream;
  const upstream = house.upstreamOf(name);
  const fields = house.outbound(head, identity, record.requestId);
  record.upstream = name;
  record.sentAt = performance.now();
  const target = withoutSegments(head.target, route.strippedSegments);
  if (record.trace !== undefined) fields.push(...traceCall(record.trace, upstream, head.method, target));
  let refused = false;
  upgrade({
    head,
    socket,
    headBytes,
    upstream,
    target,
    fields,
    responseFields: ['X-Request-Id', record.requestId],
    refuse: (refusal) => {
      refused = true;
      refuse(refusal);
    },
    done: ({ status }) => {
      if (refused) return;
      record.status = status;
      record.upstreamStatus = status;
      record.firstByteAt = status === null ? null : performance.now();
      record.outcome = 'forwarded';
      finishRecord(record, house.accessLog);
      if (status === 101) countOpen(socket);
      if (status === 101 && subject !== null) watchSocket(streams, head, socket, house, record);
    },
  });
}

function countOpen(socket: Duplex): void {
  countWebSocket(1);
  socket.once('close', () => countWebSocket(-1));
}

/** A WebSocket ends when what it was let in with no longer holds. */
function watchSocket(
  streams: Streams,
  head: RequestHead,
  socket: Duplex,
  { log, auditor }: House,
  record: RequestRecord,
): void {
  const stream: Stream = {
    head,
    cut: (reason) => {
      log.info({ request_id: record.requestId, detail: reason.refusal }, 'WebSocket ended by recheck');
      auditor.streamEnded(reason, record);
      socket.destroy();
    },
  };
  const watch = streams.watch(stream);
  socket.once('close', () => streams.end(watch));
}

/** Whether a request asks for the one protocol that is carried (RFC 6455 4.1: HTTP/1.1 at least). */
export function asksForWebSocket(req: IncomingMessage): boolean {
  return req.httpVersion === '1.1' && req.headers.upgrade?.toLowerCase() === 'websocket';
}

/**
 * Gives the connection back to the parser with the same head, less the wish to change protocols.
 * Node before 24.9 has no `shouldUpgradeCallback`, which would have left it there.
 */
export function readAgainWithoutUpgrade(
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
  socket.unshift(Buffer.concat([Buffer.from(`${head}\r\n`, 'latin1'), rest]));
  server.emit('encrypted' in socket ? 'secureConnection' : 'connection', socket);
}

function withoutUpgrade(connection: string): string {
  return connection
    .split(',')
    .filter((option) => !/^\s*(?:upgrade|http2-settings)\s*$/i.test(option))
    .join(',');
}
