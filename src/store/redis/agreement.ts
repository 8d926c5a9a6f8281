import type { RedisNode } from '../../domain/redis-address.js';

/** The server that is the master, and since which failover. */
export interface AgreedMaster {
  readonly node: RedisNode;
  /**
   * Number of the failover that made it the master; 0 where a server that becomes the master always begins a new history.
   * Sentinels may choose a server again that never learned that it was replaced: its history goes on, without what the master
   * in between acknowledged.
   */
  readonly epoch: number;
}

/** The voters on which server is the master. */
export interface Watchers {
  /** The server that they agree on now. @throws Error when too few answer, or they do not agree */
  findMaster(): Promise<AgreedMaster>;
  close(): void;
}

/** The majority's answer. @param members how many members there are, answering or not */
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

/** The answers of those who gave one. */
export async function answersOf<T>(asked: Iterable<Promise<T>>): Promise<T[]> {
  const settled = await Promise.allSettled(asked);
  return settled.flatMap((each) => (each.status === 'fulfilled' ? [each.value] : []));
}

export function addressText({ host, port }: { readonly host: string; readonly port: number }): string {
  return `${host}:${port}`;
}
