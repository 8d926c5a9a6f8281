// @ts-expect-error The fuzzer is JavaScript without types.
import { createRandom as create } from '../../bench/fuzz/random.mjs';

/** A seeded random number generator: the same numbers in every run. */
export interface Random {
  /** Returns an integer below a limit. */
  below(limit: number): number;
  pick<T>(list: readonly T[]): T;
  /** Returns true once in that many times. */
  oneIn(times: number): boolean;
}

export const createRandom: (seed: number) => Random = create;
