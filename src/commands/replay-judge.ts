import { rulesForSub } from '../accounts/jwt/subjects.js';
import type { LoadedConfig } from '../config/load.js';
import type { Subject } from '../domain/credential.js';
import { METHODS } from '../domain/methods.js';
import type { User } from '../domain/user.js';
import type { Verdict } from '../gate/verdict.js';
import { type Sender, syntheticSession, syntheticToken, syntheticUser } from '../gate/what-if.js';
import type { ComparedPolicies } from '../policy-diff/compare.js';
import type { Change } from '../policy-diff/report.js';
import { classKey, requestHead } from '../policy-diff/requests.js';
import { type DecidingRule, decidingRules } from '../policy-diff/rules.js';
import { namedService } from '../policy-diff/side.js';
import { type Variant, variantsOf } from '../policy-diff/variants.js';
import type { Match } from '../policy/routes.js';
import type { Store } from '../store/store.js';
import type { LoggedCaller, LoggedRequest, ReplayableRequest } from './access-log.js';

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

/** The sender of a logged request, with the current role, scopes and services. */
export interface KnownCaller {
  readonly subject: Subject;
  readonly login: string | null;
  readonly tokenName: string | null;
}

/** The possible senders of a request, or why the sender's permissions are unknown. */
type FoundCaller = readonly KnownCaller[] | { readonly unknown: string };

/**
 * Maximum number of cached callers; a full cache is cleared. A log has few callers compared to its
 * lines.
 */
const MAX_KNOWN = 100_000;

/** Looks up what the log does not hold about callers. */
export class Callers {
  readonly #store: Store | null;
  readonly #issuers: LoadedConfig['config']['jwt_issuers'];
  readonly #known = new Map<string, FoundCaller>();

  /** @param store null: only the subjects of JWTs can be found */
  constructor(store: Store | null, { config }: LoadedConfig) {
    this.#store = store;
    this.#issuers = config.jwt_issuers;
  }

  /** Returns the sender of a request, as if the credential were valid now. */
  async find(caller: LoggedCaller): Promise<FoundCaller> {
    const key = callerKey(caller);
    let found = this.#known.get(key);
    if (found === undefined) {
      found = await this.#lookUp(caller);
      if (this.#known.size >= MAX_KNOWN) this.#known.clear();
      this.#known.set(key, found);
    }
    return found;
  }

  async #lookUp(caller: LoggedCaller): Promise<FoundCaller> {
    if (caller.credential === 'jwt') return this.#ofIssuer(caller);
    if (this.#store === null)
      return { unknown: 'the role is not in the log, and there is no store to look it up in' };
    const user = await this.#store.directory.getUser(caller.userId);
    if (user === undefined) return { unknown: 'the user is no longer in the store' };
    const unlocked: User = { ...user, locked: false };
    if (caller.credential === 'session')
      return [{ subject: syntheticSession(unlocked), login: user.login, tokenName: null }];
    const found = await this.#store.tokens.get(caller.tokenId);
    if (found === undefined) return { unknown: 'the token is no longer in the store' };
    const { token } = found;
    if (token.userId !== user.id) return { unknown: 'the token now belongs to another user' };
    const subject = { credential: caller.credential, user: unlocked, token } as const;
    return [{ subject, login: user.login, tokenName: token.name }];
  }

  /** The log holds only the `sub` claim of a JWT, so every rule that matches it is possible. */
  #ofIssuer({ issuer, subject, customerId }: Extract<LoggedCaller, { credential: 'jwt' }>): FoundCaller {
    const rules = this.#issuers.find(({ name }) => name === issuer)?.subjects ?? [];
    const fitting = rulesForSub(rules, subject).filter((rule) => rule.customer_id === customerId);
    if (fitting.length === 0) return { unknown: UNKNOWN_CLAIMS };
    return fitting.map((rule) => {
      const user = syntheticUser(rule.role, customerId, `${issuer}/${subject}`);
      const holder = syntheticToken(user, rule.scope, rule.services ?? []);
      const found: Subject = { ...holder, credential: 'jwt', jwt: { issuer, subject } };
      return { subject: found, login: null, tokenName: null };
    });
  }
}

/** Why the permissions of a JWT are unknown. */
const UNKNOWN_CLAIMS = 'the role or scope depends on claims of the JWT, which are not in the log';

/**
 * Returns the key that identifies a caller: a token, the user of a session, or the subject of a
 * JWT.
 */
export function callerKey(caller: LoggedCaller): string {
  switch (caller.credential) {
    case 'session':
      return JSON.stringify(['session', caller.userId]);
    case 'jwt':
      return JSON.stringify(['jwt', caller.issuer, caller.subject, caller.customerId]);
    default:
      return JSON.stringify([caller.credential, caller.tokenId, caller.userId]);
  }
}
