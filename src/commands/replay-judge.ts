import { rulesForSub } from '../accounts/jwt/subjects.js';
import type { LoadedConfig } from '../config/load.js';
import type { Subject } from '../domain/credential.js';
import { METHODS } from '../domain/methods.js';
import type { User } from '../domain/user.js';
import type { Verdict } from '../gate/gate.js';
import { type Sender, syntheticSession, syntheticToken, syntheticUser } from '../gate/what-if.js';
import { changeOf, type ComparedPolicies, rulesOf } from '../policy-diff/compare.js';
import type { Change, DecidingRule } from '../policy-diff/report.js';
import { classKey, type Matches, requestHead, type Variant, variantsOf } from '../policy-diff/sample.js';
import type { Store } from '../store/core/store.js';
import { hasCaller, type LoggedCaller, type LoggedRequest } from './log-lines.js';

export type Replayed =
  | { readonly outcome: 'unchanged' }
  | { readonly outcome: 'undecided'; readonly why: string }
  | {
      readonly outcome: Change;
      readonly caller: KnownCaller | null;
      readonly matches: Matches;
      readonly rules: readonly [DecidingRule, DecidingRule];
    };

/** Maximum length of a path in the log; one of this length may be truncated. */
const CUT = 512;

const UNCHANGED: Replayed = { outcome: 'unchanged' };

/** Refusals that depend on the request alone, so that the gate repeats them. */
const REPEATABLE: ReadonlySet<string> = new Set([
  'scope', 'service_limited', 'service', 'role', 'other_customer', 'wrong_credential_kind', 'not_found', 'unauthenticated', 'token_expired',
]); // prettier-ignore

interface PossibleDecision {
  readonly variant: Variant;
  readonly matches: Matches;
  readonly verdicts: readonly [Verdict, Verdict];
}

/**
 * Returns a function that replays a request. What the log lacks (the service in a header or the query, the
 * owner of a record, the host) is tried in every variant that agrees with the logged decision. If their
 * results differ, it is undecided.
 */
export function createReplay(compared: ComparedPolicies, callerOf: ReturnType<typeof callersOf>) {
  return async (request: LoggedRequest): Promise<Replayed> => {
    const { method, path } = request;
    if (method === null) return undecided('its head could not be read, so no decision was made');
    if (path === null) return undecided('the entry has no path (log.fields)');
    if (path.length >= CUT) return undecided(`the path is truncated to ${CUT} characters`);
    if (/lk\*{38}/.test(path)) return undecided('the path contains a masked token');
    if (!METHODS.some((each) => each === method)) return UNCHANGED;
    const open = openVariants(compared, method, path, request.host);
    if (open.length === 0) return UNCHANGED;
    if (request.decision === null) return undecided(`no decision was made: ${request.outcome}`);
    const caller = hasCaller(request) ? await callerOf(request) : null;
    if (caller !== null && 'unknown' in caller) return undecided(caller.unknown);
    const [now, then] = compared.sides;
    const decisions: PossibleDecision[] = [];
    const sender: Sender = caller?.subject ?? (isInvalid(request) ? 'invalid' : 'anonymous');
    for (const { head, matches } of open)
      for (const variant of variantsOf(head, matches, settingsOf(sender))) {
        const context = { ...variant, sender };
        const verdicts = [await now.evaluate(variant.head, context), await then.evaluate(variant.head, context)] as const;
        decisions.push({ variant, matches, verdicts });
      }
    return conclude(compared, decisions, request, caller, sender);
  };
} // prettier-ignore

/** The hosts that the request may have had, without those where no decision changes. */
function openVariants({ sides, hosts, changes }: ComparedPolicies, method: string, path: string, host: string | null) {
  return (host === null ? hosts : [host]).flatMap((each) => {
    const head = requestHead(method, path, each);
    if (typeof head === 'string') return [];
    const matches = [sides[0].match(head), sides[1].match(head)] as const;
    return changes.get(classKey(sides, matches, method)) === false ? [] : [{ head, matches }];
  });
} // prettier-ignore

function conclude(
  compared: ComparedPolicies,
  decisions: readonly PossibleDecision[],
  request: LoggedRequest,
  caller: KnownCaller | null,
  sender: Sender,
): Replayed {
  const agreeing = decisions.filter(({ verdicts: [now] }) => agrees(now, request));
  if (agreeing.length === 0 && request.decision === 'refused' && !REPEATABLE.has(request.outcome))
    return undecided(`it was refused for something that the log does not contain: ${request.outcome}`);
  const possible = agreeing.length === 0 ? decisions : agreeing;
  const [first] = possible;
  if (first === undefined) return UNCHANGED;
  if (sender === 'anonymous' && possible.some(dependsOnCredential))
    return undecided('the route requires no credential so far, so the log does not name the caller');
  if (new Set(possible.map(({ verdicts }) => changeOf(verdicts))).size > 1) {
    const condition = possible.find(({ variant }) => variant.condition !== '')?.variant.condition;
    return undecided(`it depends on something that the log does not contain: ${condition ?? 'the service or the host'}`);
  }
  const { variant, matches, verdicts } = first;
  const outcome = changeOf(verdicts);
  if (outcome === 'unchanged') return UNCHANGED;
  return { outcome, caller, matches, rules: rulesOf(compared.sides, matches, verdicts, variant, sender) };
} // prettier-ignore

function undecided(why: string): Replayed {
  return { outcome: 'undecided', why };
}

function isInvalid({ outcome }: LoggedRequest): boolean {
  return outcome === 'unauthenticated' || outcome === 'token_expired';
}

/** Whether just one side refuses for lack of a credential. */
function dependsOnCredential({ verdicts }: PossibleDecision): boolean {
  const [now, then] = verdicts.map(({ refusal }) => refusal?.refusal === 'unauthenticated');
  return now !== then;
}

/** Of its services, a limited token may have named one, or another one that it lacks. */
function settingsOf(sender: Sender) {
  if (typeof sender === 'string') return undefined;
  const services = sender.credential === 'session' ? [] : sender.token.services.slice(0, 1);
  return { ownId: sender.user.id, services: [...services, 'any-other-service'] };
}

function agrees({ refusal }: Verdict, { decision, outcome }: LoggedRequest): boolean {
  if (refusal === undefined || decision === 'allowed') return refusal === undefined && decision === 'allowed';
  return (
    refusal.refusal === outcome || (refusal.refusal === 'unauthenticated' && outcome === 'token_expired')
  );
}

export interface KnownCaller {
  readonly subject: Subject;
  readonly login: string | null;
  readonly tokenName: string | null;
}

type FoundCaller = KnownCaller | { readonly unknown: string };

/**
 * Finds the sender of a request, as if the credential were valid now.
 * @param store null: only the subjects of JWTs can be found
 */
export function callersOf(store: Store | null, { config }: LoadedConfig) {
  const known = new Map<string, FoundCaller>();
  return async (caller: LoggedCaller): Promise<FoundCaller> => {
    const key = callerKey(caller);
    const isJwt = caller.credential === 'jwt';
    const found = known.get(key) ?? (isJwt ? ofIssuer(config, caller) : await inStore(store, caller));
    known.set(key, found);
    return found;
  };
}

async function inStore(store: Store | null, caller: LoggedCaller): Promise<FoundCaller> {
  const { credential, user_id: userId, token_id: tokenId } = caller;
  if (store === null || credential === 'jwt')
    return { unknown: 'the role is not in the log, and there is no store to look it up in' };
  const user = await store.directory.getUser(userId);
  if (user === undefined) return { unknown: 'the user is no longer in the store' };
  const unlocked: User = { ...user, locked: false };
  if (credential === 'session')
    return { subject: syntheticSession(unlocked), login: user.login, tokenName: null };
  const found = await store.tokens.get(tokenId ?? '');
  if (found === undefined) return { unknown: 'the token is no longer in the store' };
  const { token } = found;
  if (token.userId !== user.id) return { unknown: 'the token now belongs to another user' };
  return { subject: { credential, user: unlocked, token }, login: user.login, tokenName: token.name };
}

/** The log holds only the `sub` claim of a JWT, so a single rule must fit it. */
function ofIssuer({ jwt_issuers: issuers }: LoadedConfig['config'], caller: LoggedCaller): FoundCaller {
  const [issuer, subject] = [caller.issuer ?? '', caller.subject ?? ''];
  const rules = issuers.find(({ name }) => name === issuer)?.subjects ?? [];
  const fitting = rulesForSub(rules, subject).filter((rule) => rule.customer_id === caller.customer_id);
  const [rule] = fitting;
  if (rule === undefined || fitting.length > 1)
    return { unknown: 'the role or scope depends on claims of the JWT, which are not in the log' };
  const user = syntheticUser(rule.role, caller.customer_id, `${issuer}/${subject}`);
  const holder = syntheticToken(user, rule.scope, rule.services ?? []);
  return {
    subject: { ...holder, credential: 'jwt', jwt: { issuer, subject } },
    login: null,
    tokenName: null,
  };
}

export function callerKey(request: LoggedCaller): string {
  const { credential, user_id: user, customer_id: customer, token_id: token, issuer, subject } = request;
  return JSON.stringify([credential, user, customer, token, issuer, subject]);
}
