import type { ServiceLimit } from './askers.js';
import type { SettlingRule } from './rules.js';

/** What becomes of a request that the two sides judge differently. */
export type Change = 'newly_allowed' | 'newly_refused';

/** A rule as the report names it. */
export interface ReportedRule {
  readonly check: SettlingRule['check'];
  readonly text: string;
  /** Its keys from the top; null where the route or the token settles it. */
  readonly path: string | null;
  readonly file: string | null;
  readonly line: number | null;
}

/** A route on one side; null where the path is refused. */
export interface ReportedRoute {
  /** `*` for `default_route`. */
  readonly path: string;
  readonly action: string | null;
  readonly file: string | null;
  readonly line: number | null;
  /** Name of the built-in endpoint. */
  readonly endpoint: string | null;
}

/** Requests of one pair of routes. */
export interface ChangedRoute {
  /** Each method with a path of such a request. */
  readonly examples: Readonly<Record<string, string>>;
  readonly config: ReportedRoute | null;
  readonly against: ReportedRoute | null;
  /** The host that it is about; null for all but the web page's own. */
  readonly host: string | null;
  /** What is odd about the paths; null for plain ones. */
  readonly form: string | null;
}

/** Who, in which combination: every role with the session and with every scope and limit. */
export interface Affected {
  /** Everybody, also without a credential. */
  readonly everybody: boolean;
  /** Who sends no credential, or one that does not hold. */
  readonly anonymous: boolean;
  readonly roles: readonly string[];
  /** Whether sessions of these roles are affected. */
  readonly sessions: boolean;
  /** Scopes of tokens. A token with several is affected like one of them, unless another one allows it. */
  readonly scopes: readonly string[];
  readonly service_limits: readonly ServiceLimit[];
  /** What the request must have besides, in words: each of them is one case. Empty: nothing special. */
  readonly conditions: readonly string[];
}

/** Decisions that change for the same reason, and for the same people. */
export interface ChangedDecisions extends Affected {
  readonly change: Change;
  readonly routes: readonly ChangedRoute[];
  /** What settles it now, and what would. */
  readonly rule: ReportedRule;
  readonly against_rule: ReportedRule;
}

/** All decisions that differ between two configurations. */
export interface PolicyDiff {
  readonly newly_allowed: readonly ChangedDecisions[];
  readonly newly_refused: readonly ChangedDecisions[];
  /** Why some requests were not compared; empty when all were. */
  readonly incomplete: readonly string[];
  readonly examined: {
    /** Pairs of routes that a request can reach together. */
    readonly route_pairs: number;
    readonly roles: number;
    readonly scopes: number;
    /** Questions that were put to both gates. */
    readonly judgements: number;
  };
}
