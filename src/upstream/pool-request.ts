import type { Dispatcher } from 'undici';
import { definesContent } from '../domain/methods.js';
import type { Address } from './address.js';
import type { ForwardRequest } from './forward-request.js';
import type { Upload } from './upload.js';

/** What undici takes; its types lack the last one. */
interface PoolRequest extends Dispatcher.DispatchOptions {
  readonly servername: string | undefined;
}

/** A request as it is sent to one address of its upstream. */
export function poolRequest(
  { head, target, fields }: ForwardRequest,
  address: Address,
  upload: Upload | undefined,
): PoolRequest {
  const request: PoolRequest = {
    method: head.method,
    path: address.prefix + target,
    headers: fields,
    body: upload ?? null,
    servername: address.poolServerName,
  };
  // An upstream that leaves the content unread would take it for the next request.
  if (upload !== undefined && !definesContent(head.method)) request.reset = true;
  return request;
}
