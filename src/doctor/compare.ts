import { createHash } from 'node:crypto';
import type { Deployment, Finding, Subject } from './check.js';
import {
  type Field,
  isLoopback,
  isOfLatchkey,
  type Probe,
  type ProbeResponse,
  REDIRECTS,
  valuesOf,
  verdictOf,
} from './client.js';

const MAX_EVIDENCE = 6;

/** Returns a digest of a response without the parts that change each time: dates, numbers, ids. */
export function shapeOf(answer: ProbeResponse): string {
  const { status, body } = answer;
  const [id = ''] = valuesOf(answer, 'x-request-id');
  const steady = (id === '' ? body : body.replaceAll(id, '#')).replaceAll(
    /[0-9a-f-]{8,}|[\w-]*\d[\w-]*/gi,
    '#',
  );
  return `${status}:${createHash('sha256').update(steady).digest('hex')}`;
}

export function describeAnswer({ status, fault }: ProbeResponse): string {
  return status === 0 ? `no response (${fault})` : String(status);
}

/** Whether all responses came from loopback, which clients on other machines cannot reach. */
export function isLocal(answers: readonly ProbeResponse[]): boolean {
  return answers.every(({ remote }) => remote === '' || isLoopback(remote));
}

/** Returns what a summary says about responses from loopback; empty for others. */
export function onLoopback(answers: readonly ProbeResponse[]): string {
  return isLocal(answers)
    ? ', which is loopback: only programs on this machine reach it. Run doctor from where clients are'
    : '';
}

function shorten(lines: readonly string[]): string[] {
  if (lines.length <= MAX_EVIDENCE) return [...lines];
  return [...lines.slice(0, MAX_EVIDENCE), `and ${lines.length - MAX_EVIDENCE} more`];
}

export function findingOf(
  severity: Finding['severity'],
  summary: string,
  evidence: readonly string[],
  remedy?: string,
): Finding[] {
  if (evidence.length === 0) return [];
  return [{ severity, summary, evidence: shorten(evidence), ...(remedy === undefined ? {} : { remedy }) }];
}

export interface Alteration {
  readonly label: string;
  readonly probe: Partial<Probe>;
  /** Whether a response that lets the request in comes from another site, which is public. */
  readonly isElsewhere?: (answer: ProbeResponse) => boolean;
}

interface Bypass {
  readonly line: string;
  readonly answer: ProbeResponse;
  readonly isClear: boolean;
}

export interface BypassResults {
  readonly hits: readonly Bypass[];
  readonly tried: number;
}

export function probeOf({ view, path }: Subject, probe: Partial<Probe>): Probe {
  return { target: path, ...probe, fields: [...view.fields, ...(probe.fields ?? [])] };
}

export async function tryOnRefused(
  deployment: Deployment,
  alterationsOf: (subject: Subject) => readonly Alteration[],
): Promise<BypassResults> {
  const hits: Bypass[] = [];
  let tried = 0;
  for (const subject of deployment.subjects.filter(({ verdict }) => verdict === 'refused')) {
    const alterations = alterationsOf(subject);
    tried += alterations.length;
    const all = await Promise.all(alterations.map(async (each) => tryAlteration(deployment, subject, each))); // oxlint-disable-line no-await-in-loop -- one subject at a time
    hits.push(...all.flat());
  }
  return { hits, tried };
}

async function tryAlteration(
  deployment: Deployment,
  subject: Subject,
  { label, probe, isElsewhere }: Alteration,
): Promise<Bypass[]> {
  const answer = await deployment.send(probeOf(subject, probe));
  const verdict = verdictOf(answer);
  if (verdict === 'refused' || verdict === 'none' || isElsewhere?.(answer) === true) return [];
  // A redirect may be the proxy's; any other response that refuses nothing, like a 404, the API's.
  if (verdict === 'unclear' && (isOfLatchkey(answer) || REDIRECTS.has(answer.status))) return [];
  // A deployment that is changing may answer one request in two ways.
  const again = await deployment.send(probeOf(subject, probe));
  const baseline = await deployment.send(probeOf(subject, {}));
  if (verdictOf(again) !== verdict || verdictOf(baseline) !== subject.verdict) return [];
  const line = `${label} ${subject.view.name}: ${describeAnswer(answer)} instead of ${describeAnswer(subject.baseline)}`;
  return [{ line, answer, isClear: verdict === 'passed' }];
}

export function findingsOf({ hits }: BypassResults, what: string): Finding[] {
  const lines = (clear: boolean) => hits.filter(({ isClear }) => isClear === clear).map(({ line }) => line);
  return [
    ...findingOf('serious', `${what} lets a refused request in`, lines(true)),
    ...findingOf(
      'warning',
      `${what} gets a response that does not look like the refusal; it may come from the API`,
      lines(false),
    ),
  ];
}

/** @param unknown the same probe with names that mean nothing */
export async function changesAnswer(
  deployment: Deployment,
  subject: Subject,
  probe: Partial<Probe>,
  unknown: Partial<Probe>,
): Promise<boolean> {
  const shape = shapeOf(subject.baseline);
  const ask = async (each: Partial<Probe>) => deployment.send(probeOf(subject, each));
  const changed = await ask(probe);
  if (shapeOf(changed) === shape || changed.status === 0 || verdictOf(changed) === 'refused') return false;
  for (const each of [{}, unknown]) if (shapeOf(await ask(each)) !== shape) return false; // oxlint-disable-line no-await-in-loop -- ends at the first
  return shapeOf(await ask(probe)) === shapeOf(changed);
}

export function letIn({ subjects }: Deployment): Subject[] {
  return subjects.filter(({ verdict }) => verdict === 'passed' || verdict === 'unclear');
}

export function echoedIn({ fields, body }: ProbeResponse, forged: readonly Field[]): Field[] {
  const text = `${fields.map(([name, value]) => `${name}: ${value}`).join('\n')}\n\n${body}`;
  return forged.filter(([, value]) => text.includes(value));
}
