import { METHODS } from '../domain/methods.js';
import type { Verdict } from '../gate/verdict.js';
import type { Sender } from '../gate/what-if.js';
import type { Match } from '../policy/routes.js';
import type { ComparedPolicies } from '../policy-diff/compare.js';
import type { Change } from '../policy-diff/report.js';
import { classKey, requestHead } from '../policy-diff/requests.js';
import { type DecidingRule, decidingRules } from '../policy-diff/rules.js';
import { namedService } from '../policy-diff/side.js';
import { type Variant, variantsOf } from '../policy-diff/variants.js';
import type { LoggedRequest, ReplayableRequest } from './access-log.js';
import { type Callers, type KnownCaller, UNKNOWN_CLAIMS } from './replay-callers.js';

/** The result of replaying a logged request. */
export type Replayed =
  | { readonly outcome: 'unchanged' }
  | { readonly outcome: 'undecided'; readonly why: string }
  | {
      readonly outcome: Change;
      readonly caller: KnownCaller | null;
      readonly matches: readonly [Match | string, Match | string];
      readonly rules: readonly [DecidingRule, DecidingRule];
    };

const UNCHANGED: Replayed = { outcome: 'unchanged' };

/** Refusals that depend on the request alone, so that the gate repeats them. */
const REPEATABLE: ReadonlySet<string> = new Set([
  'scope',
  'service_limited',
  'service',
  'role',
  'other_customer',
  'wrong_credential_kind',
  'not_found',
  'unauthenticated',
  'token_expired',
]);

/** A possible form of a logged request, and the verdicts of both sides on it. */
interface PossibleDecision {
  readonly variant: Variant;
  readonly matches: readonly [Match | string, Match | string];
  /** null when the sender is unknown. */
  readonly caller: KnownCaller | null;
  readonly sender: Sender;
  readonly verdicts: readonly [Verdict, Verdict];
}

/**
 * Replays a logged request on both sides.
 *
 * Details that the log lacks (header fields, body, host) are tried in every variant that agrees
 * with the logged decision. If the results of these variants differ, the request counts as
 * undecided.
 */
export class Replayer {
  readonly #compared: ComparedPolicies;
  readonly #callers: Callers;

  constructor(compared: ComparedPolicies, callers: Callers) {
    this.#compared = compared;
    this.#callers = callers;
  }

  async replay(request: ReplayableRequest): Promise<Replayed> {
    const { method, path } = request;
    if (!METHODS.some((each) => each === method)) return UNCHANGED;
    const open = this.#open(request, method, path);
    if (open.length === 0) return UNCHANGED;
    if (request.decision === null) return undecided(`no decision was made: ${request.outcome}`);
    const found = request.caller === null ? null : await this.#callers.find(request.caller);
    if (found !== null && 'unknown' in found) return undecided(found.unknown);
    const decisions: PossibleDecision[] = [];
    for (const caller of found ?? [null]) {
      const sender = caller?.subject ?? (isInvalid(request) ? 'invalid' : 'anonymous');
      for (const { head, matches } of open)
        for (const variant of variantsOf(head, matches, settingsOf(sender)))
          if (isConsistent(variant, request))
            decisions.push(await this.#decide({ variant, matches, caller, sender }));
    }
    return this.#conclude(decisions, request);
  }

  /** The hosts that the request may have had, without those where no decision changes. */
  #open({ host }: LoggedRequest, method: string, path: string) {
    const { sides, hosts, changes } = this.#compared;
    return (host === null ? hosts : [host]).flatMap((each) => {
      const head = requestHead(method, path, each);
      if (typeof head === 'string') return [];
      const matches = [sides[0].match(head), sides[1].match(head)] as const;
      return changes(classKey(sides, matches, method)) === false ? [] : [{ head, matches }];
    });
  }

  async #decide(candidate: Omit<PossibleDecision, 'verdicts'>): Promise<PossibleDecision> {
    const { sides } = this.#compared;
    const { variant, sender } = candidate;
    const context = { ...variant, sender };
    const now = await sides[0].evaluate(variant.head, context);
    const then = await sides[1].evaluate(variant.head, context);
    return { ...candidate, verdicts: [now, then] };
  }

  #conclude(decisions: readonly PossibleDecision[], request: ReplayableRequest): Replayed {
    const agreeing = decisions.filter(({ verdicts: [now] }) => agrees(now, request));
    if (agreeing.length === 0 && request.decision === 'refused' && !REPEATABLE.has(request.outcome))
      return undecided(`it was refused for something that the log does not contain: ${request.outcome}`);
    const possible = agreeing.length === 0 ? decisions : agreeing;
    const [first] = possible;
    if (first === undefined) return UNCHANGED;
    if (possible.some(isOfUnknownCaller))
      return undecided('the route requires no credential so far, so the log does not name the caller');
    const changes = new Set(possible.map(({ verdicts }) => changeOf(verdicts)));
    if (changes.size > 1) {
      if (new Set(possible.map(({ caller }) => caller)).size > 1) return undecided(UNKNOWN_CLAIMS);
      const conditions = new Set(possible.flatMap(({ variant }) => variant.conditions));
      return undecided(`it depends on something that the log does not contain: ${[...conditions].join(', ') || 'the service or the host'}`); // prettier-ignore
    }
    const change = changeOf(first.verdicts);
    if (change === 'unchanged') return UNCHANGED;
    const { caller, matches } = first;
    return { outcome: change, caller, matches, rules: this.#rulesOf(first) };
  }

  #rulesOf({ variant, matches, verdicts, sender }: PossibleDecision): readonly [DecidingRule, DecidingRule] {
    const { sides } = this.#compared;
    const named = (match: Match | string) =>
      typeof match === 'string' ? null : namedService(variant.head, match);
    const now = { side: sides[0], match: matches[0], verdict: verdicts[0] };
    const then = { side: sides[1], match: matches[1], verdict: verdicts[1] };
    return decidingRules([now, then], sender, [named(matches[0]), named(matches[1])]);
  }
}

function undecided(why: string): Replayed {
  return { outcome: 'undecided', why };
}

function isInvalid({ outcome }: LoggedRequest): boolean {
  return outcome === 'unauthenticated' || outcome === 'token_expired';
}

/** Whether just one side refuses for lack of a credential, and the log names no sender. */
function isOfUnknownCaller({ sender, verdicts }: PossibleDecision): boolean {
  const [now, then] = verdicts.map(({ refusal }) => refusal?.refusal === 'unauthenticated');
  return sender === 'anonymous' && now !== then;
}

function settingsOf(sender: Sender) {
  if (typeof sender === 'string') return undefined;
  const services = sender.credential === 'session' ? [] : sender.token.services.slice(0, 1);
  return { ownId: sender.user.id, services };
}

/** Whether a variant agrees with the names of the query parameters, where the log holds them. */
function isConsistent({ head }: Variant, { query }: LoggedRequest): boolean {
  if (query === null || head.query === '') return true;
  return head.query.split('&').every((pair) => query.includes(pair.split('=', 1)[0] ?? ''));
}

function agrees(verdict: Verdict, { decision, outcome }: LoggedRequest): boolean {
  if (verdict.refusal === undefined) return decision === 'allowed';
  if (decision === 'allowed') return false;
  const { refusal } = verdict.refusal;
  return refusal === outcome || (refusal === 'unauthenticated' && outcome === 'token_expired');
}

function changeOf([now, then]: readonly [Verdict, Verdict]): Change | 'unchanged' {
  if ((now.refusal === undefined) === (then.refusal === undefined)) return 'unchanged';
  return then.refusal === undefined ? 'newly_allowed' : 'newly_refused';
}
