import type { Refusal } from '../domain/refusal.js';
import type { BodyBudget, BodyShare } from './body-budget.js';
import type { IncomingRequest } from './exchange.js';
import { firstField } from './fields.js';

/** Limits of a request body for a built-in endpoint. */
export interface BodyLimits {
  /** Bytes. */
  readonly body_size: number;
  /** Milliseconds in which the whole body must arrive. */
  readonly body_timeout: number;
}

const BUSY: Refusal = { refusal: 'overloaded', detail: 'Too many request bodies at once' };

/**
 * Reads a body within its limits.
 *
 * A body that is too long is refused before it is read if it declares its
 * length, otherwise at the limit.
 *
 * @param shared the budget that the body shares with others, and the network of its client; null for
 *   none
 * @param signal stops reading; its reason is the refusal to return
 * @returns undefined when the client disconnected
 */
export function readBody(
  req: IncomingRequest,
  declared: number | undefined,
  limits: BodyLimits,
  shared: { readonly budget: BodyBudget; readonly network: string } | null = null,
  signal?: AbortSignal,
): Promise<Buffer | Refusal | undefined> {
  if (declared !== undefined && declared > limits.body_size) return Promise.resolve(tooLarge(limits));
  // Bodies are never decompressed, so a small body cannot expand beyond the limit.
  if (firstField(req.rawHeaders, 'content-encoding') !== undefined) {
    return Promise.resolve({ refusal: 'malformed', detail: 'a compressed body is not accepted' });
  }
  return new Promise((resolve) => {
    const share = shared === null ? UNSHARED : shared.budget.begin(shared.network, () => finish(BUSY));
    if (share === undefined) {
      resolve(BUSY);
      return;
    }
    const chunks: Buffer[] = [];
    let size = 0;
    const finish = (result: Buffer | Refusal | undefined) => {
      clearTimeout(timer);
      signal?.removeEventListener('abort', onAbort);
      share.end();
      req
        .off('data', onData)
        .off('end', onEnd)
        .off('close', onClose)
        .off('error', onClose)
        .off('malformed', finish);
      resolve(result);
    };
    const onData = (chunk: Buffer) => {
      size += chunk.length;
      if (size > limits.body_size) finish(tooLarge(limits));
      else if (share.take(chunk.length)) chunks.push(chunk);
      else finish(BUSY);
    };
    const onEnd = () => finish(Buffer.concat(chunks));
    const onClose = () => finish(undefined);
    const onAbort = () => finish(signal?.reason as Refusal);
    const timer = setTimeout(
      () => finish({ refusal: 'too_slow', detail: 'the body took too long to arrive' }),
      limits.body_timeout,
    );
    signal?.addEventListener('abort', onAbort);
    req.on('data', onData).on('end', onEnd).on('close', onClose).on('error', onClose).on('malformed', finish);
    if (req.readableEnded) onEnd();
    else req.resume();
  });
}

const UNSHARED: BodyShare = { take: () => true, end: () => undefined };

function tooLarge({ body_size }: BodyLimits): Refusal {
  return { refusal: 'body_too_large', detail: `the body is over ${body_size} bytes` };
}
