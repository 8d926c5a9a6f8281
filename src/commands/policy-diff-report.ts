import type { PolicyDiff } from '../policy-diff/report.js';
import type { ReplayReport } from './replay.js';

/** The overall result of comparing two configurations. */
export type Result = 'nothing_changes' | 'refuses_more' | 'allows_more' | 'incomplete';

/** The output of `latchkey policy diff --json`. */
export interface PolicyDiffReport extends PolicyDiff {
  readonly config: string;
  readonly against: string;
  readonly result: Result;
  /** Keys that differ but are not compared, and that no `--allow` names. */
  readonly not_compared: readonly string[];
  readonly requests?: ReplayReport;
}
