import type { Refusal } from '../domain/refusal.js';
import type { Verdict } from '../gate/verdict.js';
import type { Sender } from '../gate/what-if.js';
import type { Decision } from '../policy/decide.js';
import type { Match } from '../policy/routes.js';
import type { Route } from '../policy/route.js';
import type { Side } from './side.js';

/** The rule that decides a request on one side, and its position. */
export interface DecidingRule {
  /**
   * `role`, `scope`, `service_limited` and `service` are checks of the policy. `route` is the route
   * itself, or the credential that it takes. `path`: the path is refused because it can be read in
   * two ways.
   */
  readonly check: Decision['reason'] | 'route' | 'path';
  readonly allowed: boolean;
  /** A short description. */
  readonly text: string;
  /** Its keys from the root; null for `route`, because each route names its own position. */
  readonly path: string | null;
  readonly file: string | null;
  /** null for a built-in rule. */
  readonly line: number | null;
}

interface Decided {
  readonly side: Side;
  readonly match: Match | string;
  readonly verdict: Verdict;
}

/** The policy check that refused, and the action that it checked. */
interface RefusedCheck {
  readonly check: Decision['reason'];
  readonly action: string;
}

/**
 * Returns the rules that decide a request on both sides, one of which refuses.
 *
 * For the other side, it is the rule of the same check.
 */
export function decidingRules(
  decided: readonly [Decided, Decided],
  sender: Sender,
  named: readonly [string | null | undefined, string | null | undefined],
): [DecidingRule, DecidingRule] {
  const refusing = decided.find(({ verdict }) => verdict.refusal !== undefined) as Decided;
  const refused = refusedCheck(refusing.verdict);
  const rules = decided.map((each, i) =>
    each.verdict.refusal === undefined
      ? allowingRule(each, refused, refusing.verdict.action, sender, named[i])
      : refusingRule(each, refused, sender, named[i]),
  );
  return rules as [DecidingRule, DecidingRule];
}

function refusedCheck({ refusal }: Verdict): RefusedCheck | null {
  if (refusal === undefined || !('action' in refusal)) return null;
  return { check: refusal.refusal, action: refusal.action };
}

function refusingRule(
  { side, match, verdict }: Decided,
  refused: RefusedCheck | null,
  sender: Sender,
  named: string | null | undefined,
): DecidingRule {
  if (refused === null || typeof sender === 'string')
    return typeof match === 'string'
      ? // After a semicolon, the detail may name the path of the sample.
        { ...byRoute(false, match.split(';', 1)[0] ?? ''), check: 'path' }
      : byRoute(false, refusalText(verdict.refusal as Refusal, match));
  const service = refused.action === verdict.action ? named : null;
  const check = side.policy.explainChecks(sender, refused.action, service).find(({ reason }) => reason === refused.check); // prettier-ignore
  return check === undefined ? byRoute(false, 'refused') : byCheck(side, check);
}

function allowingRule(
  { side, match, verdict }: Decided,
  refused: RefusedCheck | null,
  actionThere: string | null,
  sender: Sender,
  named: string | null | undefined,
): DecidingRule {
  const route = (match as Match).route;
  if (
    refused !== null &&
    verdict.action !== null &&
    typeof sender !== 'string' &&
    verdict.decision !== null
  ) {
    const isOthers = refused.action !== actionThere;
    const checks = side.policy.explainChecks(sender, isOthers ? refused.action : verdict.action, isOthers ? null : named); // prettier-ignore
    const check = checks.find(({ reason }) => reason === refused.check);
    if (check?.allowed === true) return byCheck(side, check);
  }
  return byRoute(true, allowedText(route, verdict.action));
}

function byCheck(side: Side, { reason, allowed, rule }: Decision): DecidingRule {
  if (rule === null) {
    const text =
      reason === 'service'
        ? allowed
          ? "the token's services allow it"
          : "the request names none of the token's services"
        : 'not denied to tokens that are limited to services';
    return { check: reason, allowed, text, path: null, file: null, line: null };
  }
  const { path, line } = rule.position;
  return {
    check: reason,
    allowed,
    text: ruleText(rule.effect, rule.pattern),
    path,
    file: line === null ? null : side.fileOf(path),
    line,
  };
}

function ruleText(effect: 'allow' | 'deny' | 'no_allow' | 'unknown', pattern: string | null): string {
  switch (effect) {
    case 'allow':
      return `allowed by "${pattern}"`;
    case 'deny':
      return `denied by "${pattern}"`;
    case 'unknown':
      return 'no entry of that name';
    default:
      return 'no pattern allows it';
  }
}

function byRoute(allowed: boolean, text: string): DecidingRule {
  return { check: 'route', allowed, text, path: null, file: null, line: null };
}

function allowedText({ auth, endpoint }: Route, action: string | null): string {
  if (auth === 'none' || endpoint?.credential === 'none') return 'requires no credential';
  return action === null ? 'requires only a credential' : 'requires a credential that allows its action';
}

function refusalText(refusal: Refusal, { route }: Match): string {
  const { auth, endpoint } = route;
  if (auth === 'deny') return 'refuses every request (404)';
  switch (refusal.refusal) {
    case 'unauthenticated':
      return 'requires a credential';
    case 'wrong_credential_kind':
      return `${endpoint?.name ?? 'the endpoint'} does not take this kind of credential`;
    case 'malformed':
      return 'refuses the request as malformed (400)';
    case 'active_tokens':
      return 'refuses while the user has active tokens';
    case 'service_worker':
      return 'refuses scripts of service workers';
    case 'not_found':
      return 'finds no such record (404)';
    case 'other_customer':
      return "refuses other customers' records";
    default:
      return `refuses it (${refusal.refusal})`;
  }
}
