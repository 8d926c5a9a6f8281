import type { LoadedConfig } from '../config/load.js';
import type { EpochMs } from '../domain/time.js';
import type { Explanation } from '../gate/explain.js';
import type { SimulatedCaller } from '../pipeline/simulate.js';
import type { ConfigPosition } from '../policy/rules.js';
import type { Situation } from './situation.js';

/** One thing that could be otherwise. */
export interface Change {
  /** Two changes of one kind exclude each other, unless they are about rules or scopes. */
  readonly kind: 'user' | 'role' | 'credential' | 'scope' | 'services' | 'limits' | 'lifetime' | 'rule' | 'route';
  /** What would be so; changes with the same words are shown in one line. */
  readonly words: string;
  readonly value: string | null;
  /** What it is about in the configuration; null: a record of the store. */
  readonly place: ConfigPosition | null;
  readonly apply: (situation: Situation) => Situation;
} // prettier-ignore

/** The decision that is to become another one. */
export interface Decided {
  readonly loaded: LoadedConfig;
  readonly as: SimulatedCaller;
  readonly explanation: Explanation;
  /** The client's address. */
  readonly address: string | null;
  readonly now: EpochMs;
}

export function change(
  kind: Change['kind'],
  words: string,
  value: string | null,
  apply: Change['apply'],
  place: ConfigPosition | null = null,
): Change {
  return { kind, words, value, place, apply };
}
