import type { RedisNode } from '../../domain/redis-address.js';

/** The server that is the master, and the failover that made it the master. */
export interface AgreedMaster {
  readonly node: RedisNode;
  /**
   * Number of the failover that made it the master; 0 where a new master always begins a new
   * history. Sentinels may choose a server again that never learned that it was replaced. Its
   * history goes on, without what the master in between acknowledged.
   */
  readonly epoch: number;
}

/** The voters that decide which server is the master. */
export interface MasterElectors {
  /**
   * Returns the server that they agree on now.
   *
   * @throws Error if too few answer or they do not agree
   */
  findMaster(): Promise<AgreedMaster>;
  close(): void;
}

/**
 * Returns the answer of a majority; undefined if there is none.
 *
 * @param members total number of members, whether they answered or not
 */
export function majority<T>(
  answers: readonly T[],
  members: number,
  keyOf: (answer: T) => string,
): T | undefined {
  const counts = new Map<string, number>();
  for (const answer of answers) {
    const count = (counts.get(keyOf(answer)) ?? 0) + 1;
    if (count * 2 > members) return answer;
    counts.set(keyOf(answer), count);
  }
  return undefined;
}

/** Returns the results of those promises that fulfill. */
export async function fulfilledOf<T>(promises: Iterable<Promise<T>>): Promise<T[]> {
  const settled = await Promise.allSettled(promises);
  return settled.flatMap((each) => (each.status === 'fulfilled' ? [each.value] : []));
}

export function addressText({ host, port }: { readonly host: string; readonly port: number }): string {
  return `${host}:${port}`;
}
