import { loadCandidate } from '../config/candidate.js';
import { loadConfig } from '../config/load.js';
import { maskTokens } from '../domain/mask-tokens.js';
import { type ComparedPolicies, diffPolicies } from '../policy-diff/compare.js';
import { uncomparedKeys } from '../policy-diff/uncompared.js';
import type { PolicyDiffReport, Result } from './policy-diff-report.js';
import type { ReplayReport } from './replay.js';
import { renderPolicyDiff } from './render-policy-diff.js';
import { Progress } from './terminal/progress.js';
import { asJson } from './terminal/output.js';
import { print } from './terminal/print.js';

export interface PolicyDiffOptions {
  readonly config: string;
  readonly against: string;
  readonly requests?: string;
  readonly allow?: readonly string[];
  readonly json?: true;
}

/** Compares two configurations and prints the differences; returns the exit code. */
export async function policyDiff(options: PolicyDiffOptions): Promise<number> {
  const running = loadConfig(options.config);
  const candidate = loadCandidate(options.against, running);
  const progress = new Progress();
  try {
    const compared = await diffPolicies(running, candidate, (done, all) => {
      if (done % 50 === 0) progress.step(`comparing ${done} of ${all} kinds of requests`);
    });
    const requests =
      options.requests === undefined
        ? undefined
        : await (
            await import('./replay.js')
          ).replay(running, compared, options.requests, (text) => progress.step(text));
    progress.done();
    const notCompared = uncomparedKeys(running, candidate.loaded, options.allow);
    const report: PolicyDiffReport = {
      config: running.file,
      against: candidate.loaded.file,
      result: resultOf(compared, notCompared, requests),
      not_compared: notCompared,
      ...compared.diff,
      ...(requests === undefined ? {} : { requests }),
    };
    const text = options.json ? asJson(report) : await renderPolicyDiff(report);
    print(maskTokens(text));
    return report.result === 'allows_more' || report.result === 'incomplete' ? 1 : 0;
  } finally {
    progress.done();
  }
}

function resultOf(
  { diff }: ComparedPolicies,
  notCompared: readonly string[],
  requests: ReplayReport | undefined,
): Result {
  const replayed = requests?.noticed.map(({ change }) => change) ?? [];
  if (diff.newly_allowed.length > 0 || replayed.includes('newly_allowed')) return 'allows_more';
  if (diff.incomplete.length > 0 || notCompared.length > 0) return 'incomplete';
  return diff.newly_refused.length > 0 || replayed.length > 0 ? 'refuses_more' : 'nothing_changes';
}
