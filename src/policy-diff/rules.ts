import type { Refusal } from '../domain/refusal.js';
import type { Verdict } from '../gate/gate.js';
import type { Sender } from '../gate/what-if.js';
import type { Decision } from '../policy/decide.js';
import type { Match, Route } from '../policy/route.js';
import type { NamedServices, Side } from './side.js';

export interface DecidingRule {
  /**
   * `route` is the route itself, or the credential that it takes. `path`: the path can be read in
   * two ways. The others are checks of the policy.
   */
  readonly check: Decision['reason'] | 'route' | 'path';
  readonly text: string;
  /** Its keys from the root; null when the route or the token decides. */
  readonly path: string | null;
  readonly file: string | null;
  /** null for a built-in rule. */
  readonly line: number | null;
}

export interface Decided {
  readonly side: Side;
  readonly match: Match | string;
  readonly verdict: Verdict;
}

/** The policy check that refused on one side, with its action and that of the route. */
interface RefusedCheck {
  readonly check: Decision['reason'];
  readonly action: string;
  readonly ofRoute: string | null;
}

/** Returns the rules of both sides, one of which refuses. The other's is that of the same check. */
export function decidingRules(
  [a, b]: readonly [Decided, Decided],
  sender: Sender,
  named: NamedServices,
): [DecidingRule, DecidingRule] {
  const { refusal, action } = (a.verdict.refusal === undefined ? b : a).verdict;
  const refused =
    refusal !== undefined && 'action' in refusal
      ? { check: refusal.refusal, action: refusal.action, ofRoute: action }
      : null;
  return [ruleOf(a, refused, sender, named[0]), ruleOf(b, refused, sender, named[1])];
}

function ruleOf(
  { side, match, verdict: { refusal, action, decision } }: Decided,
  refused: RefusedCheck | null,
  sender: Sender,
  named: string | null | undefined,
): DecidingRule {
  if (typeof match === 'string')
    // After a semicolon, the detail may name the path of the sample.
    return { ...byRoute(match.split(';', 1)[0] ?? ''), check: 'path' };
  const allows = refusal === undefined;
  if (refused !== null && typeof sender !== 'string' && (!allows || (action !== null && decision !== null))) {
    const isOfRoute = refused.action === refused.ofRoute;
    const checked = allows && isOfRoute ? (action ?? '') : refused.action;
    const checks = side.policy.explainChecks(sender, checked, isOfRoute ? named : null);
    const check = checks.find(({ reason, allowed }) => reason === refused.check && allowed === allows);
    if (check !== undefined) return byCheck(side, check);
  }
  return byRoute(allows ? allowedText(match.route, action) : refusalText(refusal, match));
}

function byCheck(side: Side, { reason, allowed, rule }: Decision): DecidingRule {
  if (rule === null) {
    const byServices = allowed ? "the token's services allow it" : "the request names none of the token's services"; // prettier-ignore
    const text = reason === 'service' ? byServices : 'not denied to tokens that are limited to services';
    return { check: reason, text, path: null, file: null, line: null };
  }
  const { path, line } = rule.position;
  const file = line === null ? null : side.fileOf(path);
  return {
    check: reason,
    text: EFFECTS[rule.effect].replace('PATTERN', () => rule.pattern ?? ''),
    path,
    file,
    line,
  };
}

const EFFECTS = {
  allow: 'allowed by "PATTERN"',
  deny: 'denied by "PATTERN"',
  unknown: 'no entry of that name',
  no_allow: 'no pattern allows it',
};

function byRoute(text: string): DecidingRule {
  return { check: 'route', text, path: null, file: null, line: null };
}

function allowedText({ auth, endpoint }: Route, action: string | null): string {
  if (auth === 'none' || endpoint?.credential === 'none') return 'requires no credential';
  return action === null ? 'requires only a credential' : 'requires a credential that allows its action';
}

const REFUSALS: Readonly<Partial<Record<Refusal['refusal'], string>>> = {
  unauthenticated: 'requires a credential',
  malformed: 'refuses the request as malformed (400)',
  active_tokens: 'refuses while the user has active tokens',
  service_worker: 'refuses scripts of service workers',
  not_found: 'finds no such record (404)',
  other_customer: "refuses other customers' records",
};

function refusalText({ refusal }: Refusal, { route: { auth, endpoint } }: Match): string {
  if (auth === 'deny') return 'refuses every request (404)';
  if (refusal === 'wrong_credential_kind')
    return `${endpoint?.name ?? 'the endpoint'} does not take this kind of credential`;
  return REFUSALS[refusal] ?? `refuses it (${refusal})`;
}
