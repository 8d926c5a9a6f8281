import type { Refusal } from '../domain/refusal.js';
import type { Admitted } from '../gate/verdict.js';
import { hasItem } from '../http/fields.js';
import type { RequestHead } from '../http/head.js';
import { refuseHandshake } from '../upstream/handshake.js';

const NOT_A_WEBSOCKET: Refusal = {
  refusal: 'malformed',
  detail: 'this endpoint does not accept WebSockets',
};

/** HTTP/2 has no `Upgrade`, and few servers accept WebSockets in another way (RFC 8441). */
const NO_WEBSOCKETS: Refusal = {
  refusal: 'malformed',
  detail: 'WebSockets are not supported for HTTP/2 upstreams',
};

/**
 * Refuses a WebSocket handshake that cannot be forwarded.
 * @param protocolOf of an upstream; null is the default one
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
