/** Maximum bytes, and number, of unauthenticated bodies being read in one process. */
const MAX_ANONYMOUS_BYTES = 32 * 1024 * 1024;
const MAX_ANONYMOUS_BODIES = 1_024;

/** The share of one body in a {@link BodyBudget}. */
export interface BodyShare {
  /** Reserves bytes; returns false when the budget does not allow them. */
  take(bytes: number): boolean;
  end(): void;
}

interface Held {
  /** Stops reading the body, which ends its share. */
  readonly evict: () => void;
}

/**
 * A shared limit on the size and number of bodies being read.
 *
 * At the limit, the network with the most bodies gives up its oldest one, unless the body that asks
 * is of that network. So one client with many slow bodies does not keep others from logging in.
 */
export class BodyBudget {
  readonly #maxBytes: number;
  readonly #maxBodies: number;
  /** By network, the oldest first. */
  readonly #held = new Map<string, Set<Held>>();
  #bytes = 0;
  #bodies = 0;

  constructor(maxBytes: number, maxBodies: number) {
    this.#maxBytes = maxBytes;
    this.#maxBodies = maxBodies;
  }

  /**
   * Reserves a slot for a body; returns undefined when all are in use.
   *
   * @param network of the client that sends it
   * @param evict stops reading it and ends its share
   */
  begin(network: string, evict: () => void): BodyShare | undefined {
    const others = this.#held.get(network)?.size ?? 0;
    if (this.#bodies >= this.#maxBodies && !this.#evictForOneWith(others + 1)) return undefined;
    const body: Held = { evict };
    this.#hold(network, body);
    let reserved = 0;
    let isReleased = false;
    return {
      take: (bytes) => {
        while (this.#bytes + bytes > this.#maxBytes) {
          if (!this.#evictForOneWith(this.#held.get(network)?.size ?? 0)) return false;
        }
        reserved += bytes;
        this.#bytes += bytes;
        return true;
      },
      end: () => {
        if (isReleased) return;
        isReleased = true;
        this.#bytes -= reserved;
        this.#release(network, body);
      },
    };
  }

  #hold(network: string, body: Held): void {
    const held = this.#held.get(network);
    if (held === undefined) this.#held.set(network, new Set([body]));
    else held.add(body);
    this.#bodies += 1;
  }

  #release(network: string, body: Held): void {
    const held = this.#held.get(network);
    held?.delete(body);
    if (held?.size === 0) this.#held.delete(network);
    this.#bodies -= 1;
  }

  /** Evicts a body of the network with the most, if it has more than `count`. */
  #evictForOneWith(count: number): boolean {
    let most: ReadonlySet<Held> | undefined;
    for (const held of this.#held.values()) if (held.size > (most?.size ?? count)) most = held;
    const [oldest] = most ?? [];
    oldest?.evict();
    return oldest !== undefined;
  }
}

/**
 * The budget of unauthenticated bodies, which anyone may send in large numbers and slowly.
 *
 * Authenticated bodies do not share it: a flood of logins must not stop anyone from revoking a
 * token.
 */
export const anonymousBodies = new BodyBudget(MAX_ANONYMOUS_BYTES, MAX_ANONYMOUS_BODIES);
