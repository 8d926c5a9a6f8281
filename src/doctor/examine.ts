import { describeSystemError } from '../domain/system-error.js';
import { formatTime } from '../domain/time.js';
import {
  type Advice,
  type Check,
  type DoctorOptions,
  type Finding,
  LimitReached,
  type Outcome,
  type Severity,
  unknown,
} from './check.js';
import { CHECKS } from './checks/all.js';
import { Session } from './session.js';

/** The result of a check, worst first. */
export type Result = Severity | 'unknown' | 'ok';

/** A finding with its check and remedy. */
interface ReportedFinding extends Finding {
  readonly check: string;
  readonly remedy: string;
}

/** Advice with its check. */
interface ReportedAdvice extends Advice {
  readonly check: string;
}

/** A check and its result. */
interface ReportedCheck {
  readonly check: string;
  readonly title: string;
  readonly result: Result;
  /** What was examined, what was found, or why the check could not tell. */
  readonly summary: string;
}

/** The result of a run, in the form of `latchkey doctor --json`. */
export interface Report {
  readonly version: string;
  readonly url: string;
  readonly started_at: string;
  readonly duration_ms: number;
  readonly requests: number;
  readonly result: Result;
  readonly findings: readonly ReportedFinding[];
  readonly advice: readonly ReportedAdvice[];
  readonly checks: readonly ReportedCheck[];
  /** Why a part of the run was skipped. */
  readonly notes: readonly string[];
}

/** Thrown when the deployment does not respond at all. */
export class Unreachable extends Error {
  readonly code = 'UNREACHABLE';
}

/** Examines a deployment from outside. @throws Unreachable */
export async function examine(options: DoctorOptions, onCheck: (title: string) => void = () => undefined): Promise<Report> {
  const startedAt = Date.now();
  const session = new Session(options);
  const first = await session.begin();
  if (first.status === 0) throw new Unreachable(`${options.url.origin} does not respond: ${describeSystemError({ code: first.fault })}`);
  const outcomes: (readonly [Check, Outcome])[] = [];
  const { checks: names } = options;
  for (const check of CHECKS.filter(({ name }) => names?.includes(name) ?? true)) {
    onCheck(check.title);
    outcomes.push([check, await outcomeOf(check, session)]); // oxlint-disable-line no-await-in-loop -- later checks look at the answers of earlier ones
  }
  const findings = outcomes.flatMap(([{ name, remedy }, outcome]) =>
    joined(outcome.findings).map((finding) => ({ check: name, remedy, ...finding })),
  );
  return {
    version: options.version,
    url: options.url.origin,
    started_at: formatTime(startedAt),
    duration_ms: Date.now() - startedAt,
    requests: session.requests,
    result: worstOf(findings, outcomes.some(([, { unknown: why }]) => why !== undefined)),
    findings: [...findings].toSorted((a, b) => rank(a.severity) - rank(b.severity)),
    advice: outcomes.flatMap(([{ name }, { advice = [] }]) => advice.map((each) => ({ check: name, ...each }))),
    checks: outcomes.map(([{ name, title }, outcome]) => reported(name, title, outcome)),
    notes: session.keyNote === '' ? [] : [session.keyNote],
  };
} // prettier-ignore

/** Merges findings that report the same of several paths. */
function joined(findings: readonly Finding[]): Finding[] {
  const bySummary = new Map<string, Finding>();
  for (const finding of findings) {
    const key = `${finding.severity} ${finding.summary}`;
    const before = bySummary.get(key);
    bySummary.set(key, { ...finding, evidence: [...(before?.evidence ?? []), ...finding.evidence] });
  }
  return [...bySummary.values()];
}

function rank(severity: Severity): number {
  return severity === 'serious' ? 0 : 1;
}

/**
 * Runs a check. Its outcome is unknown at the limits of the run, and when it fails, as after a
 * broken connection.
 */
async function outcomeOf(check: Check, session: Session): Promise<Outcome> {
  try {
    return await check.run(session);
  } catch (error) {
    if (error instanceof LimitReached) return unknown(error.message);
    return unknown(`the check failed: ${error instanceof Error ? error.message : String(error)}`);
  }
}

function worstOf(findings: readonly Finding[], hasUnknown = false): Result {
  if (findings.some(({ severity }) => severity === 'serious')) return 'serious';
  if (findings.length > 0) return 'warning';
  return hasUnknown ? 'unknown' : 'ok';
}

function reported(check: string, title: string, { findings, seen, unknown: why }: Outcome): ReportedCheck {
  const result = worstOf(findings, why !== undefined);
  const summary =
    findings.length > 0
      ? joined(findings)
          .map(({ summary }) => summary)
          .join('; ')
      : (why ?? seen);
  return { check, title, result, summary };
}
