import { fieldValues } from './fields.js';

/** Lower-case name of the only field in which a page can send a token with a handshake (RFC 6455 4.1). */
export const SUBPROTOCOLS = 'sec-websocket-protocol';

/** Start of the subprotocol that carries a token. */
const CARRIER = 'latchkey.bearer.';

/** Returns the subprotocols in `Sec-WebSocket-Protocol` values that carry a token. */
export function carriers(value: string): string[] {
  return itemsOf(value).filter((item) => item.startsWith(CARRIER));
}

export function tokenOf(carrier: string): string {
  return carrier.slice(CARRIER.length);
}

/** Returns a `Sec-WebSocket-Protocol` value without those that carry a token, in any case. */
export function withoutCarriers(value: string): string {
  if (!value.toLowerCase().includes(CARRIER)) return value;
  return itemsOf(value)
    .filter((item) => !item.toLowerCase().startsWith(CARRIER))
    .join(', ');
}

/**
 * Returns the field of a 101 that accepts the token's subprotocol, if the upstream chose none: browsers fail
 * a WebSocket whose offer was not answered (WebSockets 3.1).
 */
export function acceptedCarrier(request: readonly string[], response: readonly string[]): readonly string[] {
  const [carrier] = carriers(fieldValues(request, SUBPROTOCOLS).join());
  if (carrier === undefined || fieldValues(response, SUBPROTOCOLS).length > 0) return [];
  return ['Sec-WebSocket-Protocol', carrier];
}

function itemsOf(value: string): string[] {
  return value.split(',').map((item) => item.trim());
}
