import type { Refusal } from '../domain/refusal.js';
import { Unavailable } from '../domain/unavailable.js';
import type { Fault } from '../http1/faults.js';

/** The refusal of a request that ran into a fault. */
export function faultRefusal(error: unknown): Refusal {
  return error instanceof Unavailable ? error.refusal : { refusal: 'fault' };
}

/** The refusal for what is no request of HTTP/1.1. */
export function parseRefusal(fault: Fault): Refusal {
  switch (fault) {
    case 'head_too_large':
    case 'trailers_too_large':
      return {
        refusal: 'fields_too_large',
        detail: 'the request target and header fields are too long together',
      };
    case 'chunk_line_too_long':
    case 'extensions_too_large':
      return { refusal: 'body_too_large', detail: 'the chunk extensions are too long' };
    default:
      return { refusal: 'malformed', detail: 'the request is not well-formed HTTP/1.1' };
  }
}
