import type { ServiceLimit } from './senders.js';
import type { DecidingRule } from './rules.js';

/** How the decision on a request changes. */
export type Change = 'newly_allowed' | 'newly_refused';

/** A rule as the report names it. */
export interface ReportedRule {
  readonly check: DecidingRule['check'];
  readonly text: string;
  /** Its keys from the root; null when the route or the token decides. */
  readonly path: string | null;
  readonly file: string | null;
  readonly line: number | null;
}

/** A route as the report names it; null stands for a refused path. */
export interface ReportedRoute {
  /** `*` for `default_route`. */
  readonly path: string;
  readonly action: string | null;
  readonly file: string | null;
  readonly line: number | null;
  /** Name of the built-in endpoint; null for any other route. */
  readonly endpoint: string | null;
}

/** Changed requests of one pair of routes. */
export interface ChangedRoute {
  /** A path of such a request for each method. */
  readonly examples: Readonly<Record<string, string>>;
  readonly config: ReportedRoute | null;
  readonly against: ReportedRoute | null;
  /** The host, if the configurations name it; null for all others. */
  readonly host: string | null;
}

/**
 * Affected senders, in every combination: each role with a session, and with each scope and limit.
 */
export interface Affected {
  /** Everybody, even without a credential. */
  readonly everybody: boolean;
  /** Senders without a credential, or with an invalid one. */
  readonly anonymous: boolean;
  readonly roles: readonly string[];
  /** Whether sessions of these roles are affected. */
  readonly sessions: boolean;
  /**
   * Scopes of tokens. A token with several is affected like one of them, unless another scope
   * allows the request.
   */
  readonly scopes: readonly string[];
  readonly service_limits: readonly ServiceLimit[];
  /**
   * Additional conditions on the request, in words; each is a case of its own. Empty:
   * unconditional.
   */
  readonly conditions: readonly string[];
}

/** Decisions that change for the same reason and the same senders. */
export interface ChangedDecisions extends Affected {
  readonly change: Change;
  readonly routes: readonly ChangedRoute[];
  /** The rule that decides now, and the one that would. */
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
    /** Pairs of routes that one request can match. */
    readonly route_pairs: number;
    readonly roles: number;
    readonly scopes: number;
    /** Decisions that both gates made. */
    readonly judgements: number;
  };
}
