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
    // One buffer, because a chunk may be a byte that keeps a read of 64 KiB.
    let bytes = Buffer.alloc(0);
    let size = 0;
    /** Makes room for a chunk at the end of the buffer. */
    const grow = (length: number): boolean => {
      if (length <= bytes.length) return true;
      const capacity = Math.max(length, Math.min(2 * bytes.length, limits.body_size));
      if (!share.take(capacity - bytes.length)) return false;
      const grown = Buffer.allocUnsafe(capacity);
      bytes.copy(grown);
      bytes = grown;
      return true;
    };
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
      if (size + chunk.length > limits.body_size) finish(tooLarge(limits));
      else if (grow(size + chunk.length)) size += chunk.copy(bytes, size);
      else finish(BUSY);
    };
    const onEnd = () => finish(bytes.subarray(0, size));
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
