import { createHash } from 'node:crypto';
import type { IncomingMessage } from 'node:http';
import { malformed, type Refusal } from '../domain/refusal.js';
import { forbidsContent } from '../domain/methods.js';
import { fieldValues, hasItem } from '../http/fields.js';
import type { RequestHead } from '../http/head.js';
import { CHUNKED, chunkStart, responseHead, UNFRAMED } from '../http1/write.js';
import { responseLimits } from './connect.js';
import type { RefusedHandshake } from './tunnel.js';
import type { Admitted } from '../gate/gate.js';

/** The suffix that a server appends to the key before hashing it (RFC 6455 1.3). */
const ACCEPT_SUFFIX = '258EAFA5-E914-47DA-95CA-C5AB0DC85B11';

/** Fields that a 101 must not have, because it ends with its head (RFC 9110 8.6, RFC 9112 6.1). */
const FRAMING: readonly string[] = ['content-length', 'transfer-encoding', 'trailer'];
const { head_fields: MAX_FIELDS } = responseLimits();

/** Returns why a head is not a WebSocket handshake (RFC 6455 4.2.1); undefined when it is one. */
export function refuseHandshake(head: RequestHead): Refusal | undefined {
  const detail = handshakeFault(head);
  return detail === undefined ? undefined : malformed(detail);
}

function handshakeFault(head: RequestHead): string | undefined {
  if (head.method !== 'GET') return 'a WebSocket handshake is a GET';
  if (head.hasBody) return 'a WebSocket handshake has no body';
  if (fieldValues(head.fields, 'sec-websocket-version').join() !== '13')
    return 'Sec-WebSocket-Version must be 13';
  const [key = '', ...more] = fieldValues(head.fields, 'sec-websocket-key');
  if (more.length > 0 || !/^[A-Za-z0-9+/]{22}==$/.test(key))
    return 'Sec-WebSocket-Key must be 16 bytes in base64';
  return undefined;
}

/**
 * Returns what the engine would refuse in the head of a response but Node.js accepts, by the engine's names.
 */
export function malformedHead({
  httpVersion,
  rawHeaders,
  statusCode = 0,
}: Pick<IncomingMessage, 'httpVersion' | 'rawHeaders' | 'statusCode'>): string | undefined {
  if (httpVersion !== '1.1' && httpVersion !== '1.0') return 'version';
  const isFinal = statusCode >= 200 && statusCode <= 599;
  if (!isFinal && (statusCode !== 101 || httpVersion === '1.0')) return 'status';
  return rawHeaders.length > 2 * MAX_FIELDS ? 'too_many_fields' : undefined;
}

/**
 * Returns why an upstream's 101 does not open a WebSocket (RFC 6455 4.1). A server that only echoes the
 * status has not processed the key, and the tunnel would lead to something else.
 * @param response fields of the 101, flat
 * @param request fields of the client's handshake, flat
 */
export function handshakeResponseFault(
  response: readonly string[],
  request: readonly string[],
): string | undefined {
  if (fieldValues(response, 'upgrade').join().toLowerCase() !== 'websocket')
    return 'Upgrade must be websocket';
  if (!listOf(response, 'connection').some((option) => option.toLowerCase() === 'upgrade'))
    return 'Connection must name Upgrade';
  const framing = FRAMING.find((name) => fieldValues(response, name).length > 0);
  if (framing !== undefined) return `${framing} is not allowed`;
  const [key = ''] = fieldValues(request, 'sec-websocket-key');
  const accept = createHash('sha1').update(`${key}${ACCEPT_SUFFIX}`).digest('base64');
  if (fieldValues(response, 'sec-websocket-accept').join() !== accept)
    return 'Sec-WebSocket-Accept must follow from the key';
  const protocols = fieldValues(response, 'sec-websocket-protocol');
  if (protocols.length > 1 || !areOffered(protocols, listOf(request, 'sec-websocket-protocol')))
    return 'Sec-WebSocket-Protocol must be one that was offered';
  const extensions = extensionsOf(response);
  if (new Set(extensions).size < extensions.length || !areOffered(extensions, extensionsOf(request)))
    return 'Sec-WebSocket-Extensions must be among those that were offered';
  return undefined;
}

/**
 * Returns the response to a client whose WebSocket the upstream refuses. Its connection closes; a body that
 * is cut off has no last chunk.
 */
export function refusedResponse(
  { status, reason, body, isWhole }: Omit<RefusedHandshake, 'fields'>,
  fields: readonly string[],
): Buffer {
  const phrase = /^[\t\x20-\x7e\x80-\xff]*$/.test(reason) ? reason : '';
  const kept = [...fields, 'Connection', 'close'];
  if (forbidsContent(status)) return Buffer.from(responseHead(status, phrase, kept, UNFRAMED), 'latin1');
  const head = responseHead(status, phrase, kept, isWhole ? body.length : CHUNKED);
  const start = isWhole || body.length === 0 ? '' : chunkStart(body.length);
  return Buffer.concat([Buffer.from(head + start, 'latin1'), body]);
}

function areOffered(chosen: readonly string[], offered: readonly string[]): boolean {
  return chosen.every((each) => offered.includes(each));
}

/** Returns the names of extensions. Parameters contain no commas, even in quotes (RFC 6455 9.1). */
function extensionsOf(fields: readonly string[]): string[] {
  return listOf(fields, 'sec-websocket-extensions').map((each) => (each.split(';', 1)[0] ?? '').trim());
}

function listOf(fields: readonly string[], name: string): string[] {
  return fieldValues(fields, name)
    .flatMap((value) => value.split(','))
    .map((each) => each.trim())
    .filter((each) => each !== '');
}

const NOT_A_WEBSOCKET = malformed('this endpoint does not accept WebSockets');

/** HTTP/2 has no `Upgrade`, and few servers accept WebSockets in another way (RFC 8441). */
const NO_WEBSOCKETS = malformed('WebSockets are not supported for HTTP/2 upstreams');

/**
 * Refuses a WebSocket handshake that cannot be forwarded.
 * @param protocolOf of an upstream
 */
export function refuseWebSocket(
  head: RequestHead,
  { route }: Admitted,
  protocolOf: (upstream: string | null) => string,
): Refusal | undefined {
  if (route.endpoint !== null) return NOT_A_WEBSOCKET;
  return protocolOf(route.upstream) === 'http1' ? refuseHandshake(head) : NO_WEBSOCKETS;
}

/** Without the option in `Connection`, `Upgrade` is ignored (RFC 9110 7.8). */
export function isHandshake({ webSocket, connection = '' }: RequestHead): boolean {
  return webSocket && hasItem(connection, 'upgrade');
}
