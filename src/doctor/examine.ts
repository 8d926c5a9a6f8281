// src/doctor: the requests of `doctor`, and how it reads the responses.
// May import server and all below.
// `examine` runs the checks in `checks`.

import { randomBytes } from 'node:crypto';
import pLimit from 'p-limit';
import { describeSystemError } from '../util/system-error.js';
import { formatTime } from '../util/time.js';
import {
  type Check,
  type Deployment,
  type DoctorOptions,
  type Finding,
  LimitReached,
  type Outcome,
  type Severity,
  type Subject,
  type View,
} from './check.js';
import { authentication, options, upstream } from './checks/bypass.js';
import { framing } from './checks/framing.js';
import { identityHeaders, overrides } from './checks/identity.js';
import { pathReadings } from './checks/paths.js';
import { adminPort, decisionPort } from './checks/ports.js';
import { clock, cookies, redirects } from './checks/responses.js';
import { tls } from './checks/tls.js';
import {
  bytesOf,
  type Destination,
  destinationOf,
  exchange,
  type Probe,
  type ProbeResponse,
  withTls,
} from './client.js';
import { verdictOf } from './compare.js';

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

const MAX_MS = 120_000;
const CONCURRENCY = 4;

export type Result = Severity | 'unknown' | 'ok';

export type Report = Awaited<ReturnType<typeof examine>>;

export async function examine(settings: DoctorOptions) {
  const startedAt = Date.now();
  const run = new Run(settings);
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
    findings: findings.toSorted((a, b) => rank(a) - rank(b)),
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

function rank({ severity }: Finding): number {
  return severity === 'serious' ? 0 : 1;
}

function worstOf(findings: readonly Finding[], hasUnknown: boolean): Result {
  if (findings.some(({ severity }) => severity === 'serious')) return 'serious';
  if (findings.length > 0) return 'warning';
  return hasUnknown ? 'unknown' : 'ok';
}

/** Runs a check. At the limits of the run and when it fails, its outcome is unknown. */
async function outcomeOf(check: Check, run: Run): Promise<Outcome> {
  try {
    return await check.run(run);
  } catch (error) {
    const message = error instanceof Error ? error.message : String(error);
    const unknown = error instanceof LimitReached ? message : `the check failed: ${message}`;
    return { findings: [], seen: '', unknown };
  }
}

class Run implements Deployment {
  readonly options: DoctorOptions;
  readonly to: Destination;
  readonly marker = `ldr${randomBytes(6).toString('hex')}`;
  readonly unknownPath = `/latchkey-doctor-${randomBytes(4).toString('hex')}/x`;
  readonly answers: ProbeResponse[] = [];
  readonly subjects: Subject[] = [];
  /** Why the token was not used; empty if it was, or if there is none. */
  keyNote = '';
  requests = 0;
  readonly #until = AbortSignal.timeout(MAX_MS);
  readonly #limit = pLimit(CONCURRENCY);

  constructor(settings: DoctorOptions) {
    this.options = settings;
    this.to = destinationOf(settings.url);
  }

  countRequest(): void {
    if (this.#until.aborted) throw new LimitReached(`the run took longer than ${MAX_MS / 1_000} seconds`);
    const { maxRequests } = this.options;
    if (this.requests >= maxRequests) throw new LimitReached(`the run made ${maxRequests} requests`);
    this.requests += 1;
  }

  async send(probe: Probe, to = this.to): Promise<ProbeResponse> {
    return this.#limit(async () => {
      this.countRequest();
      const bytes = bytesOf(probe, to.authority, `latchkey-doctor/${this.options.version}`);
      const answer = await exchange(to, bytes, this.#until);
      if (answer.fault === 'ABORTED') this.countRequest();
      if (to === this.to) this.answers.push(answer);
      return answer;
    });
  }

  async begin(): Promise<void> {
    const { url, paths, publicPaths, key, keyHeader } = this.options;
    const { status, fault } = await this.send({ target: this.unknownPath });
    if (status === 0)
      throw new Error(`${url.origin} does not respond: ${describeSystemError({ code: fault })}`);
    const anonymous: View = { name: 'without a credential', fields: [] };
    for (const path of paths) await this.#see(anonymous, path, 'protected'); // oxlint-disable-line no-await-in-loop -- in the order of the report
    for (const path of publicPaths) await this.#see(anonymous, path, 'public'); // oxlint-disable-line no-await-in-loop -- as above
    await this.#see(anonymous, this.unknownPath, 'unknown');
    if (key === undefined) return;
    this.keyNote = await reasonForDistrust(this.to, this.options.ca);
    if (this.keyNote !== '') return;
    const view: View = { name: 'with the token', fields: [[keyHeader, key]] };
    for (const path of paths) await this.#see(view, path, 'protected'); // oxlint-disable-line no-await-in-loop -- as above
    if (paths.length === 0) await this.#see(view, this.unknownPath, 'unknown');
  }

  async #see(view: View, path: string, kind: Subject['kind']): Promise<void> {
    const baseline = await this.send({ target: path, fields: view.fields });
    this.subjects.push({ view, path, kind, baseline, verdict: verdictOf(baseline) });
  }
}

async function reasonForDistrust(to: Destination, ca: string | undefined): Promise<string> {
  if (!to.isTls) return '';
  const more = { minVersion: 'TLSv1.2', ...(ca === undefined ? {} : { ca }) } as const;
  const trial = withTls(to, more, ({ authorized, authorizationError }) =>
    authorized
      ? ''
      : `the token was not sent, because the certificate is not trusted (${String(authorizationError)})`,
  );
  return trial.catch(
    () => 'the token was not sent, because no connection with TLS 1.2 or newer could be made',
  );
}
