import { Limiter, type OnYield } from '../domain/limiter.js';
import { reportYields } from '../observe/evictions.js';

/** Maximum bytes, and number, of unauthenticated bodies being read in one process. */
const MAX_ANONYMOUS_BYTES = 32 * 1024 * 1024;
const MAX_ANONYMOUS_BODIES = 1_024;

/** The share of one body in a {@link BodyBudget}. */
export interface BodyShare {
  /** Reserves bytes; returns false when the budget does not allow them. */
  take(bytes: number): boolean;
  end(): void;
}

/**
 * A shared limit on the size and number of bodies being read.
 *
 * At the limit, the network with the most bodies gives up its oldest one, unless the body that asks
 * is of that network. So one client with many slow bodies does not keep others from logging in.
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
   *
   * @param network of the client that sends it
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
 * The budget of unauthenticated bodies, which anyone may send in large numbers and slowly.
 *
 * Authenticated bodies do not share it: a flood of logins must not stop anyone from revoking a
 * token.
 */
export const anonymousBodies = new BodyBudget(
  MAX_ANONYMOUS_BYTES,
  MAX_ANONYMOUS_BODIES,
  reportYields('body'),
);
