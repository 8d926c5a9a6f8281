import type { Refusal } from '../domain/refusal.js';
import type { IncomingRequest } from './exchange.js';
import { firstField } from './fields.js';

/** Limits of the body of a built-in endpoint. */
export interface BodyLimits {
  /** Bytes. */
  readonly body_size: number;
  /** Milliseconds in which all of it must be here. */
  readonly body_timeout: number;
}

/** Bytes of bodies that strangers may have under way in one process, and how many bodies. */
const MAX_STRANGERS_BYTES = 32 * 1024 * 1024;
const MAX_STRANGERS_BODIES = 1_024;

const BUSY: Refusal = { refusal: 'overloaded', detail: 'Too many request bodies at once' };

/** What bodies under way may take together. */
export class BodyBudget {
  readonly #maxBytes: number;
  readonly #maxBodies: number;
  #bytes = 0;
  #bodies = 0;

  constructor(maxBytes: number, maxBodies: number) {
    this.#maxBytes = maxBytes;
    this.#maxBodies = maxBodies;
  }

  /** Begins a body; undefined when there are too many. */
  begin(): BodyShare | undefined {
    if (this.#bodies >= this.#maxBodies) return undefined;
    this.#bodies += 1;
    let taken = 0;
    let over = false;
    return {
      take: (bytes) => {
        if (this.#bytes + bytes > this.#maxBytes) return false;
        taken += bytes;
        this.#bytes += bytes;
        return true;
      },
      end: () => {
        if (over) return;
        over = true;
        this.#bodies -= 1;
        this.#bytes -= taken;
      },
    };
  }
}

/** What one body takes. */
export interface BodyShare {
  /** Whether so many bytes more are allowed; they are reserved then. */
  take(bytes: number): boolean;
  end(): void;
}

/**
 * Bodies that come without a credential, where anybody may send many and each slowly. Those with one don't share it: a
 * flood of logins keeps nobody from revoking a token.
 */
export const strangersBodies = new BodyBudget(MAX_STRANGERS_BYTES, MAX_STRANGERS_BODIES);

/**
 * Reads a body within its limits. A longer one is refused before it is read where it says
 * so, and at the limit otherwise. Resolves to undefined when the client went away.
 *
 * @param budget what it shares with other bodies; null: nothing
 */
export function readBody(
  req: IncomingRequest,
  declared: number | undefined,
  limits: BodyLimits,
  budget: BodyBudget | null = null,
): Promise<Buffer | Refusal | undefined> {
  if (declared !== undefined && declared > limits.body_size) return Promise.resolve(tooLarge(limits));
  // Nothing is unpacked: a small body that grows is no way around the limit.
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
      share.end();
      req.off('data', onData).off('end', onEnd).off('close', onGone).off('error', onGone);
      resolve(result);
    };
    const onData = (chunk: Buffer) => {
      size += chunk.length;
      if (size > limits.body_size) finish(tooLarge(limits));
      else if (share.take(chunk.length)) chunks.push(chunk);
      else finish(BUSY);
    };
    const onEnd = () => finish(Buffer.concat(chunks));
    const onGone = () => finish(undefined);
    const timer = setTimeout(
      () => finish({ refusal: 'too_slow', detail: 'the body took too long' }),
      limits.body_timeout,
    );
    req.on('data', onData).on('end', onEnd).on('close', onGone).on('error', onGone);
    if (req.readableEnded) onEnd();
    else req.resume();
  });
}

const UNSHARED: BodyShare = { take: () => true, end: () => undefined };

function tooLarge({ body_size }: BodyLimits): Refusal {
  return { refusal: 'body_too_large', detail: `the body is over ${body_size} bytes` };
}
