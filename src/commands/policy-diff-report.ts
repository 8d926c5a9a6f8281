import type { PolicyDiff } from '../policy-diff/report.js';
import type { ReplayReport } from './replay.js';

/** The overall result of comparing two configurations. */
export type Result = 'nothing_changes' | 'refuses_more' | 'allows_more' | 'incomplete';

/** The output of `latchkey policy diff --json`. */
export interface PolicyDiffReport extends PolicyDiff {
  readonly config: string;
  readonly against: string;
  readonly result: Result;
  /** Settings that differ but are not compared. */
  readonly notes: readonly string[];
  readonly requests?: ReplayReport;
}
