import type { Refusal } from '../domain/refusal.js';
import { Unavailable } from '../domain/unavailable.js';

/** The refusal of a request that ran into a fault. */
export function faultRefusal(error: unknown): Refusal {
  return error instanceof Unavailable ? error.refusal : { refusal: 'fault' };
}

/** The refusal for what node's parser could not read (the `clientError` event). */
export function parseRefusal(error: NodeJS.ErrnoException): Refusal {
  switch (error.code) {
    case 'HPE_HEADER_OVERFLOW':
      return {
        refusal: 'fields_too_large',
        detail: 'the request target and header fields are too long together',
      };
    case 'HPE_CHUNK_EXTENSIONS_OVERFLOW':
      return { refusal: 'body_too_large', detail: 'the chunk extensions are too long' };
    case 'ERR_HTTP_REQUEST_TIMEOUT':
      return { refusal: 'too_slow', detail: 'the request took too long to arrive' };
    default:
      return { refusal: 'malformed', detail: 'the request is not well-formed HTTP/1.1' };
  }
}
