import { STATUS_CODES } from 'node:http';
import type { Duplex } from 'node:stream';
import type { IncomingRequest, OutgoingResponse } from './exchange.js';
import type { Reply } from './replies.js';

/** A client that sends nothing for so long of a body that nobody wants has its answer: the connection is closed. */
const LINGER_MS = 500;

/** How long the rest of such a body is read and dropped, however steadily it comes. */
const REST_MS = 10_000;
/** How long a client has to take an answer that was written straight to its connection, and to close that. */
const RAW_LINGER_MS = 5_000;

/** Fields of every answer of Latchkey's own. */
function ownFields(reply: Reply, requestId: string, length: number | undefined): string[] {
  const fields = [
    'Cache-Control',
    cacheControlOf(reply),
    'X-Content-Type-Options',
    'nosniff',
    'X-Request-Id',
    requestId,
  ];
  if (length !== undefined)
    fields.push('Content-Type', reply.content?.type ?? 'application/json', 'Content-Length', String(length));
  // RFC 9110 8.6: a 204 has no length; every other answer states its length.
  else if (reply.status !== 204 && reply.endsWithHead !== true) fields.push('Content-Length', '0');
  if (reply.headers !== undefined) fields.push(...reply.headers);
  return fields;
}

function cacheControlOf({ content, maxAge }: Reply): string {
  if (content?.immutable === true) return 'public, max-age=31536000, immutable';
  return maxAge === undefined ? 'no-store' : `public, max-age=${maxAge}`;
}

function bodyOf(reply: Reply): Buffer | string | undefined {
  if (reply.content !== undefined) return reply.content.bytes;
  return reply.text ?? (reply.json === undefined ? undefined : JSON.stringify(reply.json));
}

function lengthOf(body: Buffer | string | undefined): number | undefined {
  return body === undefined ? undefined : Buffer.byteLength(body);
}

/**
 * Writes an answer of Latchkey's own.
 *
 * When the request's body was not read, the connection is closed behind the reply, so that the body never
 * becomes a request. It lingers a moment first: a close at once would reset the client before it read the reply.
 */
export function writeReply(
  req: IncomingRequest,
  res: OutgoingResponse,
  reply: Reply,
  requestId: string,
): void {
  const body = bodyOf(reply);
  const length = lengthOf(body);
  const fields = ownFields(reply, requestId, length);
  // In HTTP/2 nothing that is left of a body could be taken for a request, and its rest is not asked for.
  const unread = !('stream' in req) && !req.readableEnded;
  if (unread) fields.push('Connection', 'close');
  res.writeHead(reply.status, STATUS_CODES[reply.status] as string, fields, reply.endsWithHead);
  if (!unread) {
    if (req.method === 'HEAD' || body === undefined) res.end();
    else if ('stream' in req) res.end(body);
    else {
      // As many bytes as characters: it is ASCII, which goes out without being encoded, together with its head.
      res.write(body, length === body.length ? 'latin1' : 'utf8');
      res.end();
    }
    return;
  }
  if (body === undefined || req.method === 'HEAD') res.flushHeaders();
  else res.write(body, 'utf8');
  lingeringEnd(req, res);
}

/** Ends an answer whose connection closes behind it when the client has sent the rest of its body, or no more of it for a moment. */
export function lingeringEnd(req: IncomingRequest, res: OutgoingResponse): void {
  const refresh = () => void quiet.refresh();
  const end = () => {
    clearTimeout(quiet);
    clearTimeout(limit);
    req.off('data', refresh).off('end', end).off('close', end);
    res.end();
  };
  const quiet = setTimeout(end, LINGER_MS);
  const limit = setTimeout(end, REST_MS);
  req
    .on('data', refresh)
    .on('end', end)
    .on('close', end)
    .on('error', () => undefined);
  req.resume();
}

/** Ends the connection when the rest of a body that nobody wants does not end in time. HTTP/2 breaks its stream off instead. */
export function limitRest(req: IncomingRequest): void {
  if ('stream' in req) return;
  const { socket } = req;
  const timer = setTimeout(() => socket.destroy(), REST_MS).unref();
  req.once('end', () => clearTimeout(timer));
}

/** An answer of Latchkey's own where something else writes it. */
export function replyParts(reply: Reply, requestId: string): { fields: string[]; body: string } {
  const body = bodyOf(reply);
  return { fields: ownFields(reply, requestId, lengthOf(body)), body: String(body ?? '') };
}

/** Writes an answer straight to a socket whose request never became one (a parse error, a handshake) and ends it. */
export function writeRawReply(socket: Duplex, reply: Reply, requestId: string): void {
  if (!socket.writable) {
    socket.end(() => socket.destroy());
    return;
  }
  const body = bodyOf(reply);
  const fields = [...ownFields(reply, requestId, lengthOf(body)), 'Connection', 'close'];
  let head = `HTTP/1.1 ${reply.status} ${STATUS_CODES[reply.status]}\r\nDate: ${new Date().toUTCString()}\r\n`;
  for (let i = 0; i < fields.length; i += 2) head += `${fields[i]}: ${fields[i + 1]}\r\n`;
  socket.end(Buffer.concat([Buffer.from(`${head}\r\n`, 'latin1'), Buffer.from(body ?? '')]));
  // Nobody else looks after it.
  const timer = setTimeout(() => socket.destroy(), RAW_LINGER_MS);
  socket.once('close', () => clearTimeout(timer)).resume();
}
