import type { PolicyDiff } from '../policy-diff/report.js';
import type { ReplayReport } from './replay.js';

/** How the two configurations compare, in one word. */
export type Result = 'nothing_changes' | 'refuses_more' | 'allows_more' | 'incomplete';

/** What `latchkey policy diff --json` prints. */
export interface PolicyDiffReport extends PolicyDiff {
  readonly config: string;
  readonly against: string;
  readonly result: Result;
  /** Settings that differ and are not compared. */
  readonly notes: readonly string[];
  readonly requests?: ReplayReport;
}
