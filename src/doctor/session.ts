import pLimit from 'p-limit';
import { randomBytes } from 'node:crypto';
import {
  type Deployment,
  type DoctorOptions,
  LimitReached,
  type PathKind,
  type Subject,
  type View,
} from './check.js';
import { bytesOf, type Destination, destinationOf, exchange } from './exchange.js';
import type { ProbeResponse, Probe } from './message.js';
import { reasonForDistrust } from './trust.js';
import { isOfLatchkey, shapeOf, verdictOf } from './verdict.js';

/** Maximum duration of a run, in milliseconds. */
const MAX_MS = 120_000;
/** Maximum number of concurrent requests. */
const CONCURRENCY = 4;

const ANONYMOUS: View = { name: 'without a credential', fields: [] };

/** One run against a deployment: counts its requests, and records its responses. */
export class Session implements Deployment {
  readonly options: DoctorOptions;
  readonly to: Destination;
  readonly marker = `ldr${randomBytes(6).toString('hex')}`;
  readonly unknownPath = `/latchkey-doctor-${randomBytes(4).toString('hex')}/x`;
  readonly answers: ProbeResponse[] = [];
  readonly subjects: Subject[] = [];
  /** Why the token was not used; empty if it was, or if there is none. */
  keyNote = '';
  requests = 0;
  readonly #agent: string;
  readonly #until: AbortSignal;
  readonly #limit = pLimit(CONCURRENCY);

  constructor(options: DoctorOptions) {
    this.options = options;
    this.to = destinationOf(options.url);
    this.#agent = `latchkey-doctor/${options.version}`;
    this.#until = AbortSignal.timeout(MAX_MS);
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
      const answer = await exchange(to, bytesOf(probe, to.authority, this.#agent), this.#until);
      if (answer.fault === 'ABORTED') this.countRequest();
      if (to === this.to) this.answers.push(answer);
      return answer;
    });
  }

  isOfApi(answer: ProbeResponse): boolean | undefined {
    const own = this.subjects.filter(({ verdict, baseline }) => verdict === 'passed' && !isOfLatchkey(baseline));
    if (own.length === 0) return undefined;
    const showsAgent = ({ body }: ProbeResponse) => body.includes(this.#agent);
    return own.some(({ baseline }) => shapeOf(baseline) === shapeOf(answer) || (showsAgent(baseline) && showsAgent(answer)));
  }

  /** Requests every path once without alterations. Resolves to the first response. */
  async begin(): Promise<ProbeResponse> {
    const { paths, publicPaths, key, keyHeader } = this.options;
    const first = await this.send({ target: this.unknownPath });
    if (first.status === 0) return first;
    const kinds: (readonly [PathKind, string])[] = [
      ...paths.map((path) => ['protected', path] as const),
      ...publicPaths.map((path) => ['public', path] as const),
      ['unknown', this.unknownPath],
    ];
    const views = [ANONYMOUS];
    if (key !== undefined) {
      this.keyNote = await reasonForDistrust(this.to, this.options.ca);
      if (this.keyNote === '') views.push({ name: 'with the token', fields: [[keyHeader, key]] });
    }
    for (const view of views) {
      const isKeyed = view.fields.length > 0;
      // The responses for other paths do not depend on a token.
      const requested = isKeyed && paths.length > 0 ? kinds.filter(([kind]) => kind === 'protected') : kinds;
      for (const [kind, path] of requested) {
        const baseline = await this.send({ target: path, fields: view.fields }); // oxlint-disable-line no-await-in-loop -- in the order of the report
        this.subjects.push({ view, path, kind, baseline, verdict: verdictOf(baseline) });
      }
    }
    return first;
  }
} // prettier-ignore
