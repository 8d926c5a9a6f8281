import type { Candidate } from '../config/candidate.js';
import type { LoadedConfig } from '../config/load.js';
import { type Bounds, compare, type Comparison } from './compare.js';
import { hostsOf } from './requests.js';
import { Side } from './side.js';

/** The two gates, and what they decide differently. */
export interface ComparedPolicies extends Comparison {
  readonly sides: readonly [Side, Side];
  /** Hosts that stand for all. */
  readonly hosts: readonly string[];
}

/** Compares the policy of a configuration that runs with that of a candidate. */
export async function diffPolicies(
  running: LoadedConfig,
  candidate: Candidate,
  onProgress?: (done: number, all: number) => void,
  bounds?: Bounds,
): Promise<ComparedPolicies> {
  const sides = [
    new Side(running, () => running.file),
    new Side(candidate.loaded, candidate.fileOf),
  ] as const;
  const configs = [running.config, candidate.loaded.config];
  const names = (table: 'roles' | 'scopes') => [...new Set(configs.flatMap(({ policy }) => Object.keys(policy[table])))]; // prettier-ignore
  const pageHosts = configs.flatMap(({ interface: { ui } }) => (ui.enabled && ui.host !== null ? [ui.host.toLowerCase()] : [])); // prettier-ignore
  const compared = { sides, names: { roles: names('roles'), scopes: names('scopes') }, pageHosts };
  return { sides, hosts: hostsOf(pageHosts), ...(await compare(compared, onProgress, bounds)) };
}
