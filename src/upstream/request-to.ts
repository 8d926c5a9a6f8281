import { definesContent } from '../domain/methods.js';
import { CHUNKED, UNFRAMED } from '../http1/write.js';
import type { Address } from './address.js';
import type { ForwardRequest } from './forward-request.js';
import type { Upload } from './upload.js';
import type { UpstreamRequest } from './upstream-request.js';

/** An authorized request as it is sent to one address of its upstream. */
export function requestTo(
  address: Address,
  { head, target, fields, upstream }: ForwardRequest,
  upload: Upload | undefined,
): UpstreamRequest {
  const { method } = head;
  // A server waits for a length where content is expected (RFC 9110 8.6).
  const expectsContent = definesContent(method);
  const none = expectsContent ? 0 : UNFRAMED;
  return {
    method,
    target: address.prefix + target,
    host: upstream.hostFor(head) ?? address.host,
    fields,
    body: upload,
    length: upload === undefined ? none : (head.contentLength ?? CHUNKED),
    closes: upload !== undefined && !expectsContent,
  };
}
