import type { IncomingMessage } from 'node:http';
import type { Duplex } from 'node:stream';
import type { Refusal } from '../../domain/refusal.js';
import type { Admitted } from '../../gate/gate.js';
import { identityFields } from '../../gate/identity.js';
import { answerRefusal } from '../../http/answers.js';
import type { RequestHead } from '../../http/head.js';
import { writeRawAnswer } from '../../http/write-answer.js';
import { refuseHandshake, type Upgrade } from '../../proxy/upgrade.js';
import { faultRefusal } from './faults.js';
import type { PublicServer } from './listener.js';
import { finishRecord, newRecord, type RequestRecord } from './record.js';
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
      finishRecord(record, house.log);
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
  const head = house.readHead(req);
  if ('refusal' in head) {
    refuse(head);
    return;
  }
  record.head = head;
  const verdict = await house.gate.judge(head, Date.now());
  record.route = verdict.route?.path ?? null;
  record.action = verdict.action;
  record.subject = verdict.subject;
  record.decision = verdict.decision;
  if (verdict.refusal !== undefined) {
    refuse(verdict.refusal);
    return;
  }
  const malformed =
    verdict.route.endpoint === null
      ? refuseHandshake(head)
      : ({ refusal: 'malformed', detail: 'this endpoint is no WebSocket' } as const);
  if (malformed !== undefined) refuse(malformed);
  else carry(house, upgrade, handshake, head, verdict);
}

function carry(
  house: House,
  upgrade: Upgrade,
  { socket, headBytes, record, refuse, streams }: Handshake,
  head: RequestHead,
  { route, subject }: Admitted,
): void {
  const identity = subject === null ? [] : identityFields(subject, house.identityNames, house.sessionScope);
  let refused = false;
  upgrade({
    head,
    socket,
    headBytes,
    upstream: house.upstreamOf(route.upstream),
    fields: house.outbound(head, identity, record.requestId),
    responseFields: ['X-Request-Id', record.requestId],
    refuse: (refusal) => {
      refused = true;
      refuse(refusal);
    },
    done: ({ status }) => {
      if (refused) return;
      record.status = status;
      record.outcome = 'forwarded';
      finishRecord(record, house.log);
      if (status === 101 && subject !== null) watch(streams, head, socket, house, record);
    },
  });
}

/** A WebSocket ends when what it was let in with no longer holds. */
function watch(
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
  streams.add(stream);
  socket.once('close', () => streams.delete(stream));
}

/** Whether a request asks for the one protocol that is carried (RFC 6455 4.1: HTTP/1.1 at least). */
export function asksForWebSocket(req: IncomingMessage): boolean {
  return req.httpVersion === '1.1' && req.headers.upgrade?.toLowerCase() === 'websocket';
}

/** For Node before 24.9, which has no `shouldUpgradeCallback`. Gives the connection back to the parser with the same head, less the wish to change protocols. */
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
  socket.unshift(Buffer.concat([Buffer.from(`${head}\r\n`, 'latin1'), rest]));
  server.emit('encrypted' in socket ? 'secureConnection' : 'connection', socket);
}

function withoutUpgrade(connection: string): string {
  return connection
    .split(',')
    .filter((option) => !/^\s*(?:upgrade|http2-settings)\s*$/i.test(option))
    .join(',');
}
