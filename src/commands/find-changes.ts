import type { LoadedConfig } from '../config/load.js';
import { type SimulatedRequest, Simulator } from '../pipeline/simulate.js';
import type { Store } from '../store/store.js';
import { changesToAllow, changesToRefuse } from './possible-changes.js';
import type { Change, Decided, Situation } from './situation.js';

/** Longest search, in decisions of the gate. */
const MAX_TRIES = 1_500;

/** What would have to be otherwise for the other answer. */
export interface FoundChanges {
  readonly answer: 'allowed' | 'refused';
  /** Each of these alone is enough. */
  readonly single: readonly Change[];
  /** Looked for when no single change is enough, save one of the route: both changes of a pair are needed. */
  readonly pairs: readonly (readonly [Change, Change])[];
  /** Whether everything was tried: the search is bounded. */
  readonly complete: boolean;
}

/**
 * Finds what would lead to the other answer: each change, and where none is enough each pair, is put to the gate that serves
 * requests.
 *
 * @param request as it was explained
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
    const { verdict } = await simulator.ask({ ...request, as: situation.as }, now);
    return verdict.allowed !== allowed;
  };
  const single: Change[] = [];
  for (const each of changes.slice(0, MAX_TRIES)) if (await flips(each.apply(base))) single.push(each);
  const pairs: [Change, Change][] = [];
  const answer = allowed ? 'refused' : 'allowed';
  // A route without authentication lets everybody in; that says nothing about what this caller lacks.
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
