import { STATUS_CODES } from 'node:http';
import type { Duplex } from 'node:stream';
import type { IncomingRequest, OutgoingResponse } from './exchange.js';
import { jsonBody, type Reply } from './replies.js';

/** Milliseconds without data of an unwanted body after which the connection is closed. */
const LINGER_MS = 2_000;

/** Maximum milliseconds for which the rest of an unwanted body is read and discarded. */
const REST_MS = 10_000;
/** Milliseconds in which a client must receive a raw response and close its connection. */
const RAW_LINGER_MS = 5_000;

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
  // RFC 9110 8.6: a 204 has no Content-Length; every other reply states it.
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
  return reply.text ?? (reply.json === undefined ? undefined : jsonBody(reply.json));
}

function lengthOf(body: Buffer | string | undefined): number | undefined {
  return body === undefined ? undefined : Buffer.byteLength(body);
}

/**
 * Writes a reply. If the request body was not read, the connection is closed after it, so that the body is
 * never parsed as a request. It lingers first: a reset could overtake the response.
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
  // In HTTP/2 the rest of a body cannot be parsed as a request, and the client is told not to send it.
  const unread = !('stream' in req) && !req.readableEnded;
  if (unread) fields.push('Connection', 'close');
  res.writeHead(reply.status, STATUS_CODES[reply.status] as string, fields, reply.endsWithHead);
  if (!unread) {
    if (req.method === 'HEAD' || body === undefined) res.end();
    else if ('stream' in req) res.end(body);
    else {
      // ASCII text is written unencoded together with its head.
      res.write(body, length === body.length ? 'latin1' : 'utf8');
      res.end();
    }
    return;
  }
  if (body === undefined || req.method === 'HEAD') res.flushHeaders();
  else res.write(body, 'utf8');
  lingeringEnd(req, res);
}

/** Ends a response, and then the connection, when the rest of the body has come or has paused. */
export function lingeringEnd(req: IncomingRequest, res: OutgoingResponse): void {
  let late: NodeJS.Immediate | undefined;
  const refresh = () => {
    clearImmediate(late);
    quiet.refresh();
  };
  const end = () => {
    clearImmediate(late);
    clearTimeout(quiet);
    clearTimeout(limit);
    req.off('data', refresh).off('end', end).off('close', end);
    res.end();
  };
  // After a stall of this process, the timer comes before data that has arrived meanwhile.
  const quiet = setTimeout(() => (late = setImmediate(end)), LINGER_MS);
  const limit = setTimeout(end, REST_MS);
  req
    .on('data', refresh)
    .on('end', end)
    .on('close', end)
    .on('error', () => undefined);
  req.resume();
}

/**
 * Closes the connection if the rest of an unwanted body does not end in time; HTTP/2 resets the stream
 * instead.
 */
export function limitRest(req: IncomingRequest): void {
  if ('stream' in req) return;
  const { socket } = req;
  const timer = setTimeout(() => socket.destroy(), REST_MS).unref();
  req.once('end', () => clearTimeout(timer));
}

/** Returns a reply's header fields (flat) and body, for callers that write it themselves. */
export function replyParts(reply: Reply, requestId: string): { fields: string[]; body: string } {
  const body = bodyOf(reply);
  return { fields: ownFields(reply, requestId, lengthOf(body)), body: String(body ?? '') };
}

/** Writes a reply straight to a socket without a request (parse error, handshake) and ends it. */
export function writeRawReply(socket: Duplex, reply: Reply, requestId: string): void {
  const body = bodyOf(reply);
  const fields = [...ownFields(reply, requestId, lengthOf(body)), 'Connection', 'close'];
  let head = `HTTP/1.1 ${reply.status} ${STATUS_CODES[reply.status]}\r\nDate: ${new Date().toUTCString()}\r\n`;
  for (let i = 0; i < fields.length; i += 2) head += `${fields[i]}: ${fields[i + 1]}\r\n`;
  endRaw(socket, Buffer.concat([Buffer.from(`${head}\r\n`, 'latin1'), Buffer.from(body ?? '')]));
}

/** Writes the last response of a connection, and closes it once the client has had time to read it. */
export function endRaw(socket: Duplex, response: Buffer): void {
  if (!socket.writable) {
    socket.end(() => socket.destroy());
    return;
  }
  socket.end(response);
  // No other timeout covers this socket.
  const timer = setTimeout(() => socket.destroy(), RAW_LINGER_MS);
  socket.once('close', () => clearTimeout(timer)).resume();
}
