import type { RedisNode } from '../../domain/urls.js';

export interface AgreedMaster {
  readonly node: RedisNode;
  /**
   * Number of the failover; 0 where a new master always begins a new history. Sentinels may choose a
   * server again that never learned it was replaced, without what the master in between had.
   */
  readonly epoch: number;
}

export interface MasterElectors {
  /** @throws Error if too few answer or they do not agree */
  findMaster(): Promise<AgreedMaster>;
  close(): void;
}

/** @param members total number, whether they answered or not */
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

interface Hearing<T> {
  readonly opinions: readonly T[];
  readonly failure: Error | undefined;
}

export async function hear<T>(votes: Iterable<Promise<T>>): Promise<Hearing<T>> {
  const settled = await Promise.allSettled(votes);
  const failed = settled.find((each) => each.status === 'rejected');
  return {
    opinions: settled.flatMap((each) => (each.status === 'fulfilled' ? [each.value] : [])),
    failure: failed?.reason as Error | undefined,
  };
}

/** @param voters their name in the plural */
export function noMajority(
  { opinions, failure }: Hearing<unknown>,
  members: number,
  voters: string,
  disagreement: string,
): Error {
  if (opinions.length * 2 > members || failure === undefined) return new Error(disagreement);
  const responded = `${opinions.length} of ${members} ${voters} responded`;
  return new Error(`${responded}; ${failure.message}`, { cause: failure });
}

export function addressText({ host, port }: { readonly host: string; readonly port: number }): string {
  return `${host}:${port}`;
}
