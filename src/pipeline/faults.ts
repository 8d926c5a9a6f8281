import { AccountSourceUnavailable } from '../accounts/http-accounts.js';
import { SigningUnavailable } from '../accounts/signing-keys.js';
import type { Refusal } from '../domain/refusal.js';
import { AuditUnavailable } from '../observe/audit.js';
import { OutcomeUnknown, StoreUnavailable } from '../store/store.js';

/** The refusal of a request that ran into a fault. It is never let through and never told to log in again. */
export function faultRefusal(error: unknown): Refusal {
  if (error instanceof OutcomeUnknown) return { refusal: 'outcome_unknown' };
  if (error instanceof StoreUnavailable) return { refusal: 'store_unavailable' };
  if (error instanceof AccountSourceUnavailable) return { refusal: 'account_source_unavailable' };
  if (error instanceof AuditUnavailable) return { refusal: 'audit_unavailable' };
  if (error instanceof SigningUnavailable) return { refusal: 'signing_unavailable' };
  return { refusal: 'fault' };
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
