import { Limiter, permitOf } from '../domain/limiter.js';
import { Unavailable } from '../domain/refusal.js';

/** Of one user, in this process. */
const LIMITS = { size: 2, maxWaiting: 20, timeout: 2_000 };

const users = new Map<string, Limiter>();

/**
 * Limits the lists of one user that are in memory: that of a customer with 100,000 tokens takes 30 MiB and
 * seconds of processor time. Others must still find the token to revoke.
 * @returns the function that ends the turn
 * @throws Unavailable if the wait would be too long
 */
export async function beginList(userId: string, timeout = LIMITS.timeout): Promise<() => void> {
  const limiter = users.get(userId) ?? new Limiter({ ...LIMITS, timeout });
  users.set(userId, limiter);
  const permit = await permitOf(limiter, [], busy);
  return () => {
    permit.release();
    if (limiter.active === 0 && users.get(userId) === limiter) users.delete(userId);
  };
}

function busy(): Unavailable {
  const refusal = { refusal: 'overloaded', detail: 'Too many lists at once' } as const;
  return new Unavailable(refusal, 'too many lists of one user are in progress');
}
