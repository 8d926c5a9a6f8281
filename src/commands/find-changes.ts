import type { LoadedConfig } from '../config/load.js';
import { type SimulatedRequest, Simulator } from '../pipeline/simulate.js';
import type { Store } from '../store/store.js';
import { changesToAllow, changesToRefuse } from './possible-changes.js';
import type { Change, Decided, Situation } from './situation.js';

/** Maximum number of gate decisions in one search. */
const MAX_TRIES = 1_500;

/** Changes that would reverse a decision. */
export interface FoundChanges {
  readonly answer: 'allowed' | 'refused';
  /** Changes that are each sufficient alone. */
  readonly single: readonly Change[];
  /**
   * Pairs of changes that reverse it only together. Searched only when no single change suffices,
   * except one to the route.
   */
  readonly pairs: readonly (readonly [Change, Change])[];
  /** Whether every candidate was tried; the search is bounded. */
  readonly complete: boolean;
}

/**
 * Finds changes that reverse a decision.
 *
 * Each change, and if none suffices each pair, is tried at the gate that serves requests.
 *
 * @param request the request as it was explained
 */
export async function findChanges(
  decided: Decided,
  request: Omit<SimulatedRequest, 'as'>,
  store: Store | null,
): Promise<FoundChanges> {
  const { loaded, explanation, as, now } = decided;
  const { allowed } = explanation.verdict;
  const changes = allowed ? changesToRefuse(decided) : changesToAllow(decided);
  const base: Situation = { config: loaded.config, as };
  const asIs = new Simulator(loaded, store);
  let tries = 0;
  const flips = async (situation: Situation): Promise<boolean> => {
    tries += 1;
    const simulator = situation.config === loaded.config ? asIs : simulatorOf(loaded, situation, store);
    const { verdict } = await simulator.simulate({ ...request, as: situation.as }, now);
    return verdict.allowed !== allowed;
  };
  const single: Change[] = [];
  for (const each of changes.slice(0, MAX_TRIES)) if (await flips(each.apply(base))) single.push(each);
  const pairs: [Change, Change][] = [];
  const answer = allowed ? 'refused' : 'allowed';
  // A route without authentication admits everyone; that does not show what this caller lacks.
  if (single.some(({ kind }) => kind !== 'route'))
    return { answer, single, pairs, complete: changes.length <= MAX_TRIES };
  for (const [a, b] of pairsOf(changes.filter((each) => !single.includes(each)))) {
    if (tries >= MAX_TRIES) return { answer, single, pairs, complete: false };
    if (await flips(b.apply(a.apply(base)))) pairs.push([a, b]);
  }
  return { answer, single, pairs, complete: true };
}

function simulatorOf(loaded: LoadedConfig, { config }: Situation, store: Store | null): Simulator {
  return new Simulator({ ...loaded, config }, store);
}

function* pairsOf(changes: readonly Change[]): Generator<readonly [Change, Change]> {
  for (const [i, a] of changes.entries())
    for (const b of changes.slice(i + 1)) if (fitTogether(a, b)) yield [a, b];
}

function fitTogether(a: Change, b: Change): boolean {
  return a.kind !== b.kind || a.kind === 'rule' || a.kind === 'scope';
}
