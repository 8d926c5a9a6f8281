import { Limiter, permitOf } from '../domain/limiter.js';
import { Unavailable } from '../domain/refusal.js';

/** Of one user, in this process. */
const LIMITS = { size: 2, maxWaiting: 20, timeout: 2_000 };

/**
 * Limits the lists of one user that are in memory: that of a customer with 100,000 tokens takes 30 MiB and
 * seconds of processor time. Others must still find the token to revoke.
 */
export class ListTurns {
  readonly #users = new Map<string, Limiter>();
  readonly #maxWait: number;

  constructor(maxWait = LIMITS.timeout) {
    this.#maxWait = maxWait;
  }

  /** Returns the function that ends the turn. @throws Unavailable if the wait would be too long */
  async begin(userId: string): Promise<() => void> {
    const limiter = this.#users.get(userId) ?? new Limiter({ ...LIMITS, timeout: this.#maxWait });
    this.#users.set(userId, limiter);
    const permit = await permitOf(limiter, [], busy);
    return () => {
      permit.release();
      if (limiter.active === 0 && this.#users.get(userId) === limiter) this.#users.delete(userId);
    };
  }

  /** For tests. */
  get size(): number {
    return this.#users.size;
  }
}

export const listTurns = new ListTurns();

function busy(): Unavailable {
  const refusal = { refusal: 'overloaded', detail: 'Too many lists at once' } as const;
  return new Unavailable(refusal, 'too many lists of one user are in progress');
}
