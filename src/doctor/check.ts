import type { Destination, Field, Probe, ProbeResponse } from './client.js';

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

export interface View {
  readonly name: 'without a credential' | 'with the token';
  readonly fields: readonly Field[];
}

export type Verdict = 'refused' | 'passed' | 'unclear' | 'none';

/** A path as one view sees it, and the response to the unaltered request. */
export interface Subject {
  readonly view: View;
  readonly path: string;
  /** Whether the path needs a credential; `unknown` paths do not exist. */
  readonly kind: 'protected' | 'public' | 'unknown';
  readonly baseline: ProbeResponse;
  readonly verdict: Verdict;
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

export interface Deployment {
  readonly options: DoctorOptions;
  readonly to: Destination;
  /** Random text that identifies values of this run in responses. */
  readonly marker: string;
  readonly subjects: readonly Subject[];
  readonly unknownPath: string;
  readonly answers: readonly ProbeResponse[];
  send(probe: Probe, to?: Destination): Promise<ProbeResponse>;
  /** Counts a request that is not sent by {@link send}. @throws LimitReached */
  countRequest(): void;
}

export class LimitReached extends Error {}
