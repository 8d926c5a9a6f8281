import { randomBytes } from 'node:crypto';
import pLimit from 'p-limit';
import { describeSystemError } from '../util/system-error.js';
import {
  bytesOf,
  type Destination,
  destinationOf,
  exchange,
  type Field,
  type Probe,
  type ProbeResponse,
  verdictOf,
  withTls,
} from './client.js';

/** `serious`: a way past Latchkey. `warning`: a weakness that is exploitable only with another one. */
export type Severity = 'serious' | 'warning';

export interface Finding {
  readonly severity: Severity;
  readonly summary: string;
  readonly evidence: readonly string[];
  /** The remedy, if it is not the one of the check. */
  readonly remedy?: string;
}

export interface Outcome {
  readonly findings: readonly Finding[];
  /** What was examined, for a check without findings. */
  readonly seen: string;
  /** Why the check could not tell; the absence of findings then proves nothing. */
  readonly unknown?: string;
}

export interface Check {
  readonly name: string;
  readonly title: string;
  readonly remedy: string;
  run(deployment: Deployment): Promise<Outcome>;
}

interface View {
  readonly name: 'without a credential' | 'with the token';
  readonly fields: readonly Field[];
}

/** A path as one view sees it, and the response to the unaltered request. */
export interface Subject {
  readonly view: View;
  readonly path: string;
  /** Whether the path needs a credential; `unknown` paths do not exist. */
  readonly kind: 'protected' | 'public' | 'unknown';
  readonly baseline: ProbeResponse;
  readonly verdict: ReturnType<typeof verdictOf>;
}

export interface DoctorOptions {
  readonly url: URL;
  readonly upstream?: URL;
  readonly admin?: URL;
  readonly decision?: URL;
  readonly plain?: URL;
  readonly paths: readonly string[];
  readonly publicPaths: readonly string[];
  readonly identityHeaders: readonly string[];
  readonly key?: string | undefined;
  readonly keyHeader: string;
  readonly ca?: string | undefined;
  readonly version: string;
  readonly maxRequests: number;
  readonly checks?: readonly string[] | undefined;
}

export class LimitReached extends Error {}

const MAX_MS = 120_000;
const CONCURRENCY = 4;

/** The deployment, and what the requests to it showed. */
export class Deployment {
  readonly options: DoctorOptions;
  readonly to: Destination;
  /** Random text that identifies values of this run in responses. */
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

  /** Counts a request, also one that is not sent by {@link send}. @throws LimitReached */
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
