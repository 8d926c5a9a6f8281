import type { Destination, Field, Probe, ProbeResponse } from './client.js';

/** `serious`: a way past Latchkey. `warning`: a weakness that is exploitable only with another one. */
export type Severity = 'serious' | 'warning';

export interface Finding {
  readonly severity: Severity;
  readonly summary: string;
  /** Requests that demonstrate it. */
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

/** A check of one aspect of a deployment. */
export interface Check {
  readonly name: string;
  readonly title: string;
  readonly remedy: string;
  run(deployment: Deployment): Promise<Outcome>;
}

/** The client of a request: anonymous, or the holder of the token. */
export interface View {
  readonly name: 'without a credential' | 'with the token';
  readonly fields: readonly Field[];
}

/** What a response says about a request: refused, let in, uncertain, or no response. */
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

/** The operator's description of a deployment. */
export interface DoctorOptions {
  readonly url: URL;
  readonly upstream?: URL;
  readonly admin?: URL;
  readonly decision?: URL;
  /** The origin that serves plain HTTP beside TLS. */
  readonly plain?: URL;
  /** Paths that need a credential. */
  readonly paths: readonly string[];
  /** Paths that need none. */
  readonly publicPaths: readonly string[];
  /** Additional names of identity headers. */
  readonly identityHeaders: readonly string[];
  readonly key?: string | undefined;
  readonly keyHeader: string;
  /** CA certificates (PEM) that are trusted instead of the usual ones. */
  readonly ca?: string | undefined;
  readonly version: string;
  /** Maximum number of requests of the run. */
  readonly maxRequests: number;
  /** Names of the checks to run; all when absent. */
  readonly checks?: readonly string[] | undefined;
}

/** The deployment under examination, as checks see it. */
export interface Deployment {
  readonly options: DoctorOptions;
  readonly to: Destination;
  /** Random text that identifies values of this run in responses. */
  readonly marker: string;
  readonly subjects: readonly Subject[];
  /** A path that cannot exist. */
  readonly unknownPath: string;
  /** All responses of the deployment so far. */
  readonly answers: readonly ProbeResponse[];
  /** Sends a request to the deployment, or elsewhere. Rejects only at the limits of the run. */
  send(probe: Probe, to?: Destination): Promise<ProbeResponse>;
  /** Counts a request that is not sent by {@link send}. @throws LimitReached */
  countRequest(): void;
}

/** Thrown when the run has used up its requests or its time. */
export class LimitReached extends Error {
  readonly code = 'LIMIT_REACHED';
}
