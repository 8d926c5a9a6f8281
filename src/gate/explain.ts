import type { Subject } from '../domain/credential.js';
import type { IdentityNames } from '../domain/identity-fields.js';
import type { Refusal } from '../domain/refusal.js';
import { type EpochMs, formatTime } from '../util/time.js';
import { refusalReply } from '../http/replies.js';
import type { RequestHead } from '../http/head.js';
import type { Decision } from '../policy/decide.js';
import type { Route } from '../policy/route.js';
import { type Admitted, type Verdict, type WhatIf, whatIfGate } from './gate.js';
import { identityFields } from './identity.js';
import { isRefused, serviceOf } from './request-rules.js';

/** The gate's decision on a request, as plain values. `latchkey explain --json` prints it. */
export interface Explanation {
  readonly method: string;
  readonly target: string;
  readonly path: string | null;
  /** With the position of its declaration; null for a built-in endpoint. */
  readonly route: ReturnType<typeof routeOf> | null;
  readonly action: string | null;
  readonly credential: ReturnType<typeof credentialOf> | null;
  readonly service: string | null;
  readonly checks: readonly ExplainedCheck[];
  readonly guarded?: NonNullable<ReturnType<typeof guardOf>['guarded']>;
  readonly verdict: {
    readonly allowed: boolean;
    /** `forward`, `answer` (an endpoint), `preflight` (by the CORS rules), or the reason of the refusal. */
    readonly outcome: string;
    /** Status of the response; null when the upstream or the request body decides it. */
    readonly status: number | null;
    readonly detail: string | null;
    readonly upstream: string | null;
    readonly endpoint: string | null;
  };
  readonly note: string | null;
  readonly identity: Readonly<Record<string, string>>;
}

export type ExplainedCheck = ReturnType<typeof checkOf>;

export interface ExplainSettings {
  readonly identityNames: IdentityNames;
  /** The claim of each further header. */
  readonly identityClaims: Readonly<Record<string, string>>;
  /** Refuses a request that the gate admits but that cannot be forwarded. */
  readonly refuseAdmitted: (admitted: Admitted) => Refusal | undefined;
  /** Returns the status of a redirect in place of a refusal; undefined when there is none. */
  readonly redirectOf: (refusal: Refusal, route: Route | null) => number | undefined;
}

export async function explain(
  parts: WhatIf,
  head: RequestHead,
  now: EpochMs,
  settings: ExplainSettings,
): Promise<Explanation> {
  const judged = await whatIfGate(parts).evaluate(head, now);
  const refusal = judged.refusal ?? settings.refuseAdmitted(judged);
  const verdict = refusal === undefined ? judged : { ...judged, refusal };
  const { subject, action } = verdict;
  const match = parts.sites.find(head);
  if (typeof match === 'string') return { ...blank(head), verdict: outcomeOf(verdict, settings) };
  const named = serviceOf(head, match);
  const service = isRefused(named) ? undefined : named;
  const checked =
    subject === null || action === null ? [] : parts.policy.explainChecks(subject, action, service);
  return {
    ...blank(head),
    path: match.path,
    route: routeOf(match.route),
    action,
    credential: subject === null ? null : credentialOf(subject),
    service: service ?? null,
    checks: checked.map(checkOf),
    ...guardOf(verdict),
    verdict: outcomeOf(verdict, settings),
    identity: identityOf(verdict, settings, parts.policy.sessionScope),
  };
}

export function explainRefused(method: string, target: string, refusal: Refusal): Explanation {
  return { ...blank({ method, target }), verdict: refusedOutcome(refusal) };
}

/** @param preflight its route, and whether that route's CORS rules allow the announced request */
export function explainPreflight(
  head: RequestHead,
  { route, outcome }: { readonly route: Route; readonly outcome: 'preflight' | 'preflight_refused' },
): Explanation {
  const allowed = outcome === 'preflight';
  const detail = allowed ? null : 'cors does not allow its origin, its method or one of its headers';
  return {
    ...blank(head),
    path: head.path,
    route: routeOf(route),
    verdict: { allowed, outcome, status: 204, detail, upstream: null, endpoint: null },
  };
}

function blank({ method, target }: { method: string; target: string }): Omit<Explanation, 'verdict'> {
  return {
    method,
    target,
    path: null,
    route: null,
    action: null,
    credential: null,
    service: null,
    checks: [],
    note: null,
    identity: {},
  };
}

function outcomeOf(verdict: Verdict, settings: ExplainSettings): Explanation['verdict'] {
  if (verdict.refusal !== undefined) {
    const refused = refusedOutcome(verdict.refusal);
    return { ...refused, status: settings.redirectOf(verdict.refusal, verdict.route) ?? refused.status };
  }
  const { endpoint, upstream } = verdict.route;
  const allowed = { allowed: true, detail: null } as const;
  return endpoint === null
    ? { ...allowed, outcome: 'forward', status: null, upstream, endpoint: null }
    : { ...allowed, outcome: 'answer', status: endpoint.success, upstream: null, endpoint: endpoint.name }; // prettier-ignore
}

function refusedOutcome(refusal: Refusal): Explanation['verdict'] {
  const { status, json } = refusalReply(refusal);
  const { msg, detail } = json as { msg: string; detail?: string };
  return {
    allowed: false,
    outcome: refusal.refusal,
    status,
    detail: detail ?? msg,
    upstream: null,
    endpoint: null,
  };
}

function routeOf({ name, methods, auth, position, endpoint }: Route) {
  return { path: position?.path === 'default_route' ? '*' : name, methods, auth, place: endpoint === null ? position : null };
} // prettier-ignore

function credentialOf(subject: Subject) {
  const { user } = subject;
  const token = subject.credential === 'session' ? null : subject.token;
  return {
    kind: subject.credential,
    user_id: user.id,
    customer_id: user.customerId,
    login: user.login,
    role: user.role,
    token_id: subject.credential === 'jwt' ? null : (token?.id ?? null),
    token_name: token?.name ?? null,
    scopes: token?.scopes ?? null,
    services: token?.services ?? [],
    expires_at: token == null || token.expiresAt === null ? null : formatTime(token.expiresAt),
    ...(token?.restrictions?.rate === undefined ? {} : { rate: token.restrictions.rate }),
    ...(token?.restrictions?.addresses === undefined ? {} : { addresses: token.restrictions.addresses }),
  };
}

function checkOf({ reason, allowed, rule }: Decision) {
  return {
    check: reason,
    allowed,
    effect: rule?.effect ?? null,
    pattern: rule?.pattern ?? null,
    place: rule?.position ?? null,
  };
}

function guardOf({ guarded, route }: Verdict) {
  if (guarded === undefined) return {};
  const position = route?.position;
  const place = position == null ? null : { ...position, path: `${position.path}.refuse_if_active_tokens` };
  return { guarded: { user_id: guarded.userId, has_active_tokens: guarded.isActive, place } };
}

function identityOf(
  { refusal, route, subject }: Verdict,
  { identityNames, identityClaims }: ExplainSettings,
  sessionScope: string,
): Record<string, string> {
  if (refusal !== undefined || subject === null || route?.endpoint !== null) return {};
  const fields = identityFields(subject, identityNames, sessionScope, identityClaims);
  const record: Record<string, string> = {};
  for (let i = 0; i < fields.length; i += 2) record[fields[i] as string] = fields[i + 1] as string;
  return record;
}
