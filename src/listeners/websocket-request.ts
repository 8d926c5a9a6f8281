import { firstField } from '../http/fields.js';
import type { ParsedRequest } from '../http/exchange.js';

/** Whether a request asks for the one protocol that is forwarded (RFC 6455 4.1: HTTP/1.1 at least). */
export function asksForWebSocket({ httpVersion, rawHeaders }: ParsedRequest): boolean {
  return httpVersion === '1.1' && firstField(rawHeaders, 'upgrade')?.toLowerCase() === 'websocket';
}
