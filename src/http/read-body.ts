import type { Refusal } from '../domain/refusal.js';
import type { IncomingRequest } from './exchange.js';
import { firstField } from './fields.js';

/** Limits of a request body for a built-in endpoint. */
export interface BodyLimits {
  /** Bytes. */
  readonly body_size: number;
  /** Milliseconds in which the whole body must arrive. */
  readonly body_timeout: number;
}

/** Maximum bytes, and number, of unauthenticated bodies being read in one process. */
const MAX_ANONYMOUS_BYTES = 32 * 1024 * 1024;
const MAX_ANONYMOUS_BODIES = 1_024;

const BUSY: Refusal = { refusal: 'overloaded', detail: 'Too many request bodies at once' };

/** A shared limit on the size and number of bodies being read. */
export class BodyBudget {
  readonly #maxBytes: number;
  readonly #maxBodies: number;
  #bytes = 0;
  #bodies = 0;

  constructor(maxBytes: number, maxBodies: number) {
    this.#maxBytes = maxBytes;
    this.#maxBodies = maxBodies;
  }

  /** Reserves a slot for a body; returns undefined when all are in use. */
  begin(): BodyShare | undefined {
    if (this.#bodies >= this.#maxBodies) return undefined;
    this.#bodies += 1;
    let reserved = 0;
    let isReleased = false;
    return {
      take: (bytes) => {
        if (this.#bytes + bytes > this.#maxBytes) return false;
        reserved += bytes;
        this.#bytes += bytes;
        return true;
      },
      end: () => {
        if (isReleased) return;
        isReleased = true;
        this.#bodies -= 1;
        this.#bytes -= reserved;
      },
    };
  }
}

/** The share of one body in a {@link BodyBudget}. */
export interface BodyShare {
  /** Reserves bytes; returns false when the budget does not allow them. */
  take(bytes: number): boolean;
  end(): void;
}

/**
 * The budget of unauthenticated bodies, which anyone may send in large numbers and slowly.
 *
 * Authenticated bodies do not share it: a flood of logins must not stop
 * anyone from revoking a token.
 */
export const anonymousBodies = new BodyBudget(MAX_ANONYMOUS_BYTES, MAX_ANONYMOUS_BODIES);

/**
 * Reads a body within its limits.
 *
 * A body that is too long is refused before it is read if it declares its
 * length, otherwise at the limit.
 *
 * @param budget shared with other bodies; null for none
 * @param signal stops reading; its reason is the refusal to return
 * @returns undefined when the client disconnected
 */
export function readBody(
  req: IncomingRequest,
  declared: number | undefined,
  limits: BodyLimits,
  budget: BodyBudget | null = null,
  signal?: AbortSignal,
): Promise<Buffer | Refusal | undefined> {
  if (declared !== undefined && declared > limits.body_size) return Promise.resolve(tooLarge(limits));
  // Bodies are never decompressed, so a small body cannot expand beyond the limit.
  if (firstField(req.rawHeaders, 'content-encoding') !== undefined) {
    return Promise.resolve({ refusal: 'malformed', detail: 'a compressed body is not accepted' });
  }
  const share = budget === null ? UNSHARED : budget.begin();
  if (share === undefined) return Promise.resolve(BUSY);
  return new Promise((resolve) => {
    const chunks: Buffer[] = [];
    let size = 0;
    const finish = (result: Buffer | Refusal | undefined) => {
      clearTimeout(timer);
      signal?.removeEventListener('abort', onAbort);
      share.end();
      req.off('data', onData).off('end', onEnd).off('close', onClose).off('error', onClose);
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
    req.on('data', onData).on('end', onEnd).on('close', onClose).on('error', onClose);
    if (req.readableEnded) onEnd();
    else req.resume();
  });
}

const UNSHARED: BodyShare = { take: () => true, end: () => undefined };

function tooLarge({ body_size }: BodyLimits): Refusal {
  return { refusal: 'body_too_large', detail: `the body is over ${body_size} bytes` };
}
