import type { Deployment, Finding, Subject } from './check.js';
import type { Destination } from './exchange.js';
import { type ProbeResponse, type Probe, textOf } from './message.js';
import { describeAnswer, isOfLatchkey, shapeOf, type Verdict, verdictOf } from './verdict.js';

/** A change to a request that must not change Latchkey's decision. */
export interface Alteration {
  /** Name of the alteration in a report. */
  readonly label: string;
  readonly probe: Probe;
  /** Destination of the request, instead of the deployment. */
  readonly to?: Destination;
  /**
   * Whether a response that lets the request in may come from something else that needs no
   * credential.
   */
  readonly isElsewhere?: (answer: ProbeResponse) => boolean | Promise<boolean>;
}

/** An alteration that changed the decision. */
interface Bypass {
  readonly line: string;
  readonly answer: ProbeResponse;
}

/** The results of altering refused requests. */
export interface BypassResults {
  readonly passed: readonly Bypass[];
  readonly unclear: readonly Bypass[];
  readonly tried: number;
}

const MAX_EVIDENCE = 6;

/** Returns the request of a subject with an alteration. */
export function probeOf({ view, path }: Subject, { probe }: { probe: Partial<Probe> }): Probe {
  return { target: path, ...probe, fields: [...view.fields, ...(probe.fields ?? [])] };
}

/** Returns the subjects with a verdict. */
export function withVerdict(subjects: readonly Subject[], verdict: Verdict): Subject[] {
  return subjects.filter((subject) => subject.verdict === verdict);
}

/**
 * Sends alterations of a refused request. Collects those that are let in twice while the original
 * request is not.
 */
async function tryAlterations(
  deployment: Deployment,
  subject: Subject,
  alterations: readonly Alteration[],
): Promise<BypassResults> {
  const passed: Bypass[] = [];
  const unclear: Bypass[] = [];
  await Promise.all(
    alterations.map(async (alteration) => {
      const probe = probeOf(subject, alteration);
      const answer = await deployment.send(probe, alteration.to);
      const verdict = verdictOf(answer);
      if (verdict === 'refused' || verdict === 'none') return;
      if ((await alteration.isElsewhere?.(answer)) === true) return;
      const line = `${alteration.label} ${subject.view.name}: ${describeAnswer(answer)} instead of ${describeAnswer(subject.baseline)}`;
      if (verdict !== 'passed' && !isPastTheGate(answer)) return;
      if (await isSteady(deployment, subject, { ...alteration, probe }, answer))
        (verdict === 'passed' ? passed : unclear).push({ line, answer });
    }),
  );
  return { passed, unclear, tried: alterations.length };
}

/** Sends both requests again: a deployment that is changing may answer one request in two ways. */
async function isSteady(deployment: Deployment, subject: Subject, { probe, to }: Alteration, answer: ProbeResponse): Promise<boolean> {
  const again = await deployment.send(probe, to);
  const baseline = await deployment.send(probeOf(subject, { probe: {} }));
  return verdictOf(again) === verdictOf(answer) && verdictOf(baseline) === subject.verdict;
} // prettier-ignore

/**
 * Whether a response refuses nothing, like the API's 404. Redirects are attributed to the proxy.
 */
function isPastTheGate(answer: ProbeResponse): boolean {
  const isRedirect = answer.status >= 300 && answer.status < 400;
  return !isRedirect && !isOfLatchkey(answer);
}

/** Joins the hits of several subjects. */
export function joinResults(all: readonly BypassResults[]): BypassResults {
  return {
    passed: all.flatMap(({ passed }) => passed),
    unclear: all.flatMap(({ unclear }) => unclear),
    tried: all.reduce((sum, { tried }) => sum + tried, 0),
  };
}

/** Returns the findings of hits: requests that were let in are serious. */
export function findingsOf({ passed, unclear }: BypassResults, what: string): Finding[] {
  const findings: Finding[] = [];
  if (passed.length > 0)
    findings.push({ severity: 'serious', summary: `${what} lets a refused request in`, evidence: linesOf(passed) });
  if (unclear.length > 0)
    findings.push({
      severity: 'warning',
      summary: `${what} gets a response that does not look like the refusal; it may come from the API`,
      evidence: linesOf(unclear),
    });
  return findings;
} // prettier-ignore

function linesOf(hits: readonly Bypass[]): string[] {
  return shorten(hits.map(({ line }) => line));
}

/** Returns the first lines, and the number of those left out. */
export function shorten(lines: readonly string[]): string[] {
  if (lines.length <= MAX_EVIDENCE) return [...lines];
  return [...lines.slice(0, MAX_EVIDENCE), `and ${lines.length - MAX_EVIDENCE} more`];
}

/** Sends every refused subject again with each of its alterations. */
export async function tryOnRefused(
  deployment: Deployment,
  alterationsOf: (subject: Subject) => readonly Alteration[],
): Promise<BypassResults> {
  const all: BypassResults[] = [];
  for (const subject of withVerdict(deployment.subjects, 'refused'))
    all.push(await tryAlterations(deployment, subject, alterationsOf(subject))); // oxlint-disable-line no-await-in-loop -- one subject at a time
  return joinResults(all);
}

/**
 * Whether an allowed request gets a different response with some fields than with unknown ones.
 *
 * @param unknownProbe the same probe with names that mean nothing
 */
export async function changesAnswer(
  deployment: Deployment,
  subject: Subject,
  probe: Partial<Probe>,
  unknownProbe: Partial<Probe>,
): Promise<boolean> {
  const changed = await deployment.send(probeOf(subject, { probe }));
  if (shapeOf(changed) === shapeOf(subject.baseline)) return false;
  const [first, control] = await Promise.all(
    [{}, unknownProbe].map(async (each) => deployment.send(probeOf(subject, { probe: each }))),
  );
  if (first === undefined || control === undefined) return false;
  const isStable = shapeOf(first) === shapeOf(subject.baseline) && shapeOf(control) === shapeOf(first);
  if (!isStable || changed.status === 0 || verdictOf(changed) === 'refused') return false;
  const again = await deployment.send(probeOf(subject, { probe }));
  return shapeOf(again) === shapeOf(changed);
} // prettier-ignore

/** Returns the markers that a response contains. */
export function echoedIn(answer: ProbeResponse, markers: readonly string[]): string[] {
  const text = textOf(answer);
  return markers.filter((marker) => text.includes(marker));
}
