import type { Field, Answer, Probe } from './message.js';
import type { Destination } from './exchange.js';
import type { Verdict } from './verdict.js';

/** How bad a finding is: a way past Latchkey, or a weakness that needs something else as well. */
export type Severity = 'serious' | 'warning';

/** One thing that is wrong. */
export interface Finding {
  readonly severity: Severity;
  readonly summary: string;
  /** Requests that show it. */
  readonly evidence: readonly string[];
  /** What fixes it, when it is not that of the check. */
  readonly remedy?: string;
}

/** What could be better and is no fault: it changes neither the result nor the exit code. */
export interface Advice {
  readonly summary: string;
  readonly remedy: string;
}

/** What a check came to. */
export interface Outcome {
  readonly findings: readonly Finding[];
  readonly advice?: readonly Advice[];
  /** What was looked at, for a check without findings. */
  readonly seen: string;
  /** Why it could not tell; then no finding does not mean that all is well. */
  readonly unknown?: string;
}

/** One question about a deployment. */
export interface Check {
  readonly name: string;
  readonly title: string;
  /** The worst that it can find. */
  readonly severity: Severity;
  readonly remedy: string;
  run(deployment: Deployment): Promise<Outcome>;
}

/** Who asks: nobody, or the holder of the token. */
export interface View {
  readonly name: 'without a credential' | 'with the token';
  readonly fields: readonly Field[];
}

/** What a path is for. */
export type PathKind = 'protected' | 'public' | 'unknown';

/** A path as one view sees it, before anything is changed. */
export interface Subject {
  readonly view: View;
  readonly path: string;
  readonly kind: PathKind;
  readonly baseline: Answer;
  readonly verdict: Verdict;
}

/** What an operator says of a deployment. */
export interface DoctorOptions {
  readonly url: URL;
  readonly upstream?: URL;
  readonly admin?: URL;
  readonly decision?: URL;
  /** Where plain HTTP is served beside TLS. */
  readonly plain?: URL;
  /** Names of other virtual hosts. */
  readonly hosts: readonly string[];
  /** Paths that need a credential. */
  readonly paths: readonly string[];
  /** Paths that need none. */
  readonly publicPaths: readonly string[];
  /** Further names of identity headers. */
  readonly identityHeaders: readonly string[];
  readonly key?: string;
  readonly keyHeader: string;
  /** Certificates of authorities (PEM) that are trusted instead of the usual ones. */
  readonly ca?: string;
  readonly version: string;
  /** Most requests of the run. */
  readonly maxRequests: number;
  /** Names of the checks to run; all when it is absent. */
  readonly checks?: readonly string[];
}

/** What checks work with. */
export interface Deployment {
  readonly options: DoctorOptions;
  readonly to: Destination;
  /** Recognizes values of this run in answers. */
  readonly marker: string;
  readonly subjects: readonly Subject[];
  /** A path that cannot exist. */
  readonly unknownPath: string;
  /** Every answer of the deployment so far. */
  readonly answers: readonly Answer[];
  /** Whether an answer seems to come from the API, by what it let through so far. Undefined when nothing is known of it. */
  isOfApi(answer: Answer): boolean | undefined;
  /** Sends a request to the deployment, or to another destination. It never rejects but at the limits of the run. */
  send(probe: Probe, to?: Destination): Promise<Answer>;
  /** Asks for time and requests that are spent otherwise. @throws LimitReached */
  spend(): void;
}

/** The run has used up its requests or its time. */
export class LimitReached extends Error {
  readonly code = 'LIMIT_REACHED';
}

/** A result without findings. */
export function fine(seen: string): Outcome {
  return { findings: [], seen };
}

/** A result of a check that could not look. */
export function unknown(why: string): Outcome {
  return { findings: [], seen: '', unknown: why };
}
