// src/doctor: the requests of `doctor`, and how it reads the responses.
// May import server and all below.
// `examine` runs the checks in `checks`.

import { formatTime } from '../util/time.js';
import {
  type Check,
  Deployment,
  type DoctorOptions,
  type Finding,
  LimitReached,
  type Outcome,
  type Severity,
} from './check.js';
import { authentication, options, upstream } from './checks/bypass.js';
import { framing } from './checks/framing.js';
import { identityHeaders, overrides } from './checks/identity.js';
import { pathReadings } from './checks/paths.js';
import { adminPort, decisionPort } from './checks/ports.js';
import { clock, cookies, redirects } from './checks/responses.js';
import { tls } from './checks/tls.js';

/** Every check, in the order of the report. The last ones examine the responses to the others. */
export const CHECKS: readonly Check[] = [
  authentication,
  upstream,
  options,
  identityHeaders,
  overrides,
  pathReadings,
  adminPort,
  decisionPort,
  framing,
  redirects,
  tls,
  cookies,
  clock,
];

export type Result = Severity | 'unknown' | 'ok';

export type Report = Awaited<ReturnType<typeof examine>>;

export async function examine(settings: DoctorOptions) {
  const startedAt = Date.now();
  const run = new Deployment(settings);
  await run.begin();
  const outcomes: (readonly [Check, Outcome])[] = [];
  for (const check of CHECKS.filter(({ name }) => settings.checks?.includes(name) ?? true)) {
    const outcome = await outcomeOf(check, run); // oxlint-disable-line no-await-in-loop -- later checks look at the answers of earlier ones
    outcomes.push([check, { ...outcome, findings: joined(outcome.findings) }]);
  }
  const findings = outcomes.flatMap(([{ name, remedy }, outcome]) =>
    outcome.findings.map((finding) => ({ check: name, remedy, ...finding })),
  );
  const hasUnknown = outcomes.some(([, { unknown }]) => unknown !== undefined);
  return {
    version: settings.version,
    url: settings.url.origin,
    started_at: formatTime(startedAt),
    duration_ms: Date.now() - startedAt,
    requests: run.requests,
    result: worstOf(findings, hasUnknown),
    findings: findings.toSorted(
      (a, b) => Number(a.severity === 'warning') - Number(b.severity === 'warning'),
    ),
    checks: outcomes.map(([{ name, title }, { findings, seen, unknown }]) => ({
      check: name,
      title,
      result: worstOf(findings, unknown !== undefined),
      summary: findings.length === 0 ? (unknown ?? seen) : findings.map(({ summary }) => summary).join('; '),
    })),
    notes: run.keyNote === '' ? [] : [run.keyNote],
  };
}

function joined(findings: readonly Finding[]): Finding[] {
  const bySummary = new Map<string, Finding>();
  for (const finding of findings) {
    const key = `${finding.severity} ${finding.summary}`;
    const before = bySummary.get(key);
    bySummary.set(key, { ...finding, evidence: [...(before?.evidence ?? []), ...finding.evidence] });
  }
  return [...bySummary.values()];
}

function worstOf(findings: readonly Finding[], hasUnknown: boolean): Result {
  if (findings.some(({ severity }) => severity === 'serious')) return 'serious';
  if (findings.length > 0) return 'warning';
  return hasUnknown ? 'unknown' : 'ok';
}

/** Runs a check. At the limits of the run and when it fails, its outcome is unknown. */
async function outcomeOf(check: Check, run: Deployment): Promise<Outcome> {
  try {
    return await check.run(run);
  } catch (error) {
    const message = error instanceof Error ? error.message : String(error);
    const unknown = error instanceof LimitReached ? message : `the check failed: ${message}`;
    return { findings: [], seen: '', unknown };
  }
}
