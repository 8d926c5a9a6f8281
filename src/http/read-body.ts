import { Limiter, type OnYield } from '../domain/limiter.js';
import { malformed, overloaded, type Refusal } from '../domain/refusal.js';
import { reportYields } from '../observe/evictions.js';
import type { IncomingRequest } from './exchange.js';
import { firstField } from './fields.js';

/** Maximum bytes, and number, of unauthenticated bodies being read in one process. */
const MAX_ANONYMOUS_BYTES = 32 * 1024 * 1024;
const MAX_ANONYMOUS_BODIES = 1_024;

export interface BodyShare {
  /** Reserves bytes; returns false when the budget does not allow them. */
  take(bytes: number): boolean;
  end(): void;
}

/**
 * A shared limit on the bodies being read. At the limit, the network with the most bodies gives up its oldest
 * one, so that one client with many slow bodies does not keep others from logging in.
 */
export class BodyBudget {
  readonly #maxBytes: number;
  readonly #limiter: Limiter;
  #bytes = 0;

  constructor(maxBytes: number, maxBodies: number, onYield?: OnYield) {
    this.#maxBytes = maxBytes;
    this.#limiter = new Limiter({ size: maxBodies, maxWaiting: 0, timeout: 0, patience: 0 }, onYield);
  }

  /**
   * Reserves a slot for a body; returns undefined when all are in use.
   * @param evict stops reading it and ends its share
   */
  begin(network: string, evict: () => void): BodyShare | undefined {
    const permit = this.#limiter.acquire({
      holder: [`network ${network}`],
      go: () => undefined,
      leave: evict,
    });
    if (permit === undefined) return undefined;
    let reserved = 0;
    return {
      take: (bytes) => {
        while (this.#bytes + bytes > this.#maxBytes) if (!this.#limiter.makeRoom(permit)) return false;
        reserved += bytes;
        this.#bytes += bytes;
        return true;
      },
      end: () => {
        this.#bytes -= reserved;
        reserved = 0;
        permit.release();
      },
    };
  }
}

/**
 * The budget of unauthenticated bodies. Authenticated ones do not share it: a flood of logins must not stop
 * anyone from revoking a token.
 */
export const anonymousBodies = new BodyBudget(
  MAX_ANONYMOUS_BYTES,
  MAX_ANONYMOUS_BODIES,
  reportYields('body'),
);

export interface BodyLimits {
  readonly body_size: number;
  readonly body_timeout: number;
}

const BUSY = overloaded('Too many request bodies at once');

/**
 * Reads a body; one that declares too great a length is refused before it is read.
 * @param shared the budget shared with others, and the network of the client; null for none
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
  if (firstField(req.rawHeaders, 'content-encoding') !== undefined)
    return Promise.resolve(malformed('a compressed body is not accepted'));
  return new Promise((resolve) => {
    const share = shared === null ? UNSHARED : shared.budget.begin(shared.network, () => finish(BUSY));
    if (share === undefined) {
      resolve(BUSY);
      return;
    }
    // One buffer, because a chunk may be a byte that keeps a read of 64 KiB.
    let bytes = Buffer.alloc(0);
    let size = 0;
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
