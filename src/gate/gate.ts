// src/gate: authentication, authorization, identity headers.
// May import accounts, webhooks and all below.
// `Gate.evaluate` runs the steps in order.

import { type MaybePromise, mapMaybe } from '../util/async.js';
import type { Subject } from '../domain/credential.js';
import { expectsNoBody, isRead } from '../domain/methods.js';
import { segmentAt } from '../domain/path.js';
import { malformed, noEndpoint, type Refusal } from '../domain/refusal.js';
import type { EpochMs } from '../util/time.js';
import { ID } from '../domain/user.js';
import type { LastSeen } from '../accounts/last-seen.js';
import type { Tokens } from '../accounts/tokens.js';
import type { WriteLimit, WritesLeft } from '../accounts/token-rates.js';
import { AUTHORIZATION } from '../http/authorization.js';
import type { RequestHead } from '../http/head.js';
import { type Decision, type Policy, policyRefusal } from '../policy/decide.js';
import { type EndpointRule, guardedUser, type Match, type Route } from '../policy/route.js';
import type { Sites } from '../policy/sites.js';
import type { Authenticator, TokenLimits } from './authenticate.js';
import type { Ownership } from './ownership.js';
import {
  bodyOnRead,
  isRefused,
  type NamedService,
  refuseCredentialKind,
  refuseCrossOrigin,
  refuseServiceWorker,
  serviceOf,
} from './request-rules.js';

export interface Admitted {
  readonly refusal?: undefined;
  readonly route: Route;
  readonly path: string;
  readonly action: string | null;
  readonly subject: Subject | null;
  readonly decision: Decision | null;
  /** The user's remaining writes; absent when the request was not counted. */
  readonly writes?: WritesLeft;
  /** Present when the request asks a built-in endpoint for a record that is not the caller's own. */
  readonly isOthers?: true;
  /** The user that `refuse_if_active_tokens` guards; absent where the guard did not run. */
  readonly guarded?: { readonly userId: string; readonly isActive: boolean };
}

interface Refused extends Pick<Admitted, 'action' | 'subject' | 'decision' | 'isOthers' | 'guarded'> {
  readonly refusal: Refusal;
  readonly route: Route | null;
}

export type Verdict = Admitted | Refused;

const UNCLEAR_USER =
  'expected the exact id of a user in the path: letters, digits, "-" and "_", in upper and lower case as in the id';

/** Purging by key and by URL, which clients do whenever their content changes. */
const FREE_ACTION = 'purge:select';

export interface GateServices {
  readonly sites: Sites;
  readonly policy: Policy;
  readonly authenticator: Pick<Authenticator, 'authenticate' | 'isSent'>;
  readonly ownership: Pick<Ownership, 'ofToken' | 'ofCustomer' | 'refuseOthers'>;
  readonly tokenLimits: TokenLimits;
  readonly lastSeen: Pick<LastSeen, 'note'>;
  readonly tokens: Pick<Tokens, 'hasActive'> & Partial<Pick<Tokens, 'read'>>;
  readonly writeLimit: WriteLimit | null;
}

interface EarlyMatch extends Match {
  readonly read?: ReturnType<Tokens['read']>;
}

/**
 * Authorizes requests, for every entrance. The first step that refuses is final: the route, what it accepts
 * (body, service worker, one service), the credential, its token's addresses and rate, same origin, the kind
 * of credential and scopes of an endpoint, the policy, the owner of an endpoint's record,
 * `refuse_if_active_tokens`, and the write limit.
 */
export class Gate {
  readonly #parts: GateServices;

  constructor(parts: GateServices) {
    this.#parts = parts;
  }

  /** Re-authorizes open streams, without side effects or the user that the request itself deleted. */
  forRecheck(): Gate {
    return whatIfGate({ ...this.#parts, tokens: { hasActive: async () => false } });
  }

  evaluate(head: RequestHead, now: EpochMs): MaybePromise<Verdict> {
    const match = this.#parts.sites.find(head);
    if (typeof match === 'string') return refused(malformed(match), null, null, null);
    const { route } = match;
    const reads = isRead(head.method);
    const action = reads ? route.readAction : route.writeAction;
    if (expectsNoBody(head.method) && !route.allowsBodyOnRead && head.hasBody)
      return refused(bodyOnRead(head.method), route, action, null);
    if (route.auth === 'deny') return refused(noEndpoint(head), route, action, null);
    const unfit = refuseServiceWorker(head, route);
    if (unfit !== undefined) return refused(unfit, route, action, null);
    if (route.auth === 'none') return admitted(match, action, null, null);
    if (route.endpoint !== null && this.#ignoresCredential(route.endpoint, head))
      return withoutCredential(head, match, this.#parts.sites.ownOrigins);
    const service = route.service === null ? null : serviceOf(head, match);
    if (service !== null && isRefused(service)) return refused(service, route, action, null);
    const subject = this.#parts.authenticator.authenticate(head, now);
    if (!(subject instanceof Promise)) return this.#limit(head, match, action, service, subject, now);
    const early = this.#readEarly(match);
    return subject.then((found) => this.#limit(head, early, action, service, found, now));
  }

  #limit(
    head: RequestHead,
    match: EarlyMatch,
    action: string | null,
    service: NamedService,
    subject: Subject | Refusal,
    now: EpochMs,
  ): MaybePromise<Verdict> {
    const { route } = match;
    if ('refusal' in subject) return refused(subject, route, action, null);
    const limit = this.#parts.tokenLimits.refuse(subject, head, !revokes(head, route));
    if (limit === undefined) return this.#authorize(head, match, action, service, subject, now);
    return mapMaybe(limit, (refusal) =>
      refusal === undefined
        ? this.#authorize(head, match, action, service, subject, now)
        : refused(refusal, route, action, subject),
    );
  }

  #authorize(
    head: RequestHead,
    match: EarlyMatch,
    action: string | null,
    service: NamedService,
    subject: Subject,
    now: EpochMs,
  ): MaybePromise<Verdict> {
    const { route } = match;
    this.#parts.lastSeen.note(subject, head.client.address, head.userAgent, now);
    const refusal =
      (isAmbient(subject, head) ? refuseCrossOrigin(head, this.#parts.sites.ownOrigins) : undefined) ??
      (route.endpoint === null ? undefined : this.#refuseAtEndpoint(subject, route.endpoint));
    if (refusal !== undefined) return refused(refusal, route, action, subject);
    if (action === null) return admitted(match, action, subject, null);

    const decision = this.#parts.policy.decide(subject, action, service);
    const forbidden = policyRefusal(decision, action);
    if (forbidden !== undefined) return refused(forbidden, route, action, subject, decision);
    const verdict = admitted(match, action, subject, decision);
    if (route.endpoint !== null && route.endpoint.id !== null)
      return this.#checkOwner(subject, match, verdict);
    if (route.refuseIfActiveTokens !== null) return this.#guard(subject, match, verdict, now, head);
    return this.#count(head, verdict, now);
  }

  #refuseAtEndpoint(subject: Subject, endpoint: EndpointRule): Refusal | undefined {
    const { scopeAction } = endpoint;
    const refusal = refuseCredentialKind(subject, endpoint);
    if (refusal !== undefined || scopeAction === null) return refusal;
    const decision = this.#parts.policy.decideByScope(subject, scopeAction);
    return decision === null ? undefined : policyRefusal(decision, scopeAction);
  }

  /**
   * Identifies the caller for an endpoint that accepts `none` but whose body says that the credential counts.
   */
  identify(head: RequestHead, now: EpochMs): MaybePromise<Subject | Refusal> {
    return mapMaybe(this.#parts.authenticator.authenticate(head, now), (subject) => {
      if ('refusal' in subject) return subject;
      return mapMaybe(this.#parts.tokenLimits.refuse(subject, head, true), (refusal) => {
        if (refusal !== undefined) return refusal;
        this.#parts.lastSeen.note(subject, head.client.address, head.userAgent, now);
        return subject;
      });
    });
  }

  #ignoresCredential({ credential, acceptsJwt }: EndpointRule, head: RequestHead): boolean {
    if (credential === 'none') return acceptsJwt || head.jwt === undefined || head.jwtPlace !== AUTHORIZATION;
    return credential === 'optional' && !this.#parts.authenticator.isSent(head);
  }

  /** Reads the token that an endpoint names while the credential is read: one round trip to the store. */
  #readEarly(match: Match): EarlyMatch {
    if (match.route.endpoint?.id !== 'token') return match;
    const read = this.#parts.tokens.read?.(segmentAt(match.path, 1) as string);
    // It is refused with the credential, or fails where it is used.
    if (read instanceof Promise) read.catch(() => undefined);
    return { ...match, read };
  }

  async #checkOwner(
    subject: Subject,
    { route, path, read }: EarlyMatch,
    verdict: Admitted,
  ): Promise<Verdict> {
    const { id: kind, foreignRecordAction } = route.endpoint as EndpointRule;
    const id = segmentAt(path, 1) as string;
    const { ownership } = this.#parts;
    const owner =
      kind === 'customer' ? ownership.ofCustomer(id, subject) : await ownership.ofToken(id, subject, read);
    if (owner === 'self') return verdict;
    if (owner !== 'other') return { ...verdict, refusal: owner };
    const refusal = ownership.refuseOthers(subject, foreignRecordAction as string);
    return refusal === undefined ? { ...verdict, isOthers: true } : { ...verdict, isOthers: true, refusal };
  }

  /** Refuses to delete a user with active tokens, and ids that the API might read differently. */
  async #guard(
    { user }: Subject,
    match: Match,
    verdict: Admitted,
    now: EpochMs,
    head: RequestHead,
  ): Promise<Verdict> {
    const userId = guardedUser(match) as string;
    const isActive = ID.test(userId)
      ? await this.#parts.tokens.hasActive(userId, user.customerId, now)
      : 'similar';
    if (isActive === 'similar') return { ...verdict, refusal: malformed(UNCLEAR_USER) };
    const guarded = { ...verdict, guarded: { userId, isActive } };
    return isActive ? { ...guarded, refusal: { refusal: 'active_tokens' } } : this.#count(head, guarded, now);
  }

  /** Counts writes to the upstream, except purges; endpoints are exempt, so that revoking always works. */
  #count(head: RequestHead, verdict: Admitted, now: EpochMs): MaybePromise<Verdict> {
    const { writeLimit } = this.#parts;
    const { subject, route, action } = verdict;
    if (writeLimit === null || subject === null || route.endpoint !== null) return verdict;
    if (isRead(head.method) || action === FREE_ACTION) return verdict;
    return writeLimit(subject.user.id, now).then((writes): Verdict => {
      if (writes.remaining >= 0) return { ...verdict, writes };
      const retryAfter = Math.max(1, Math.ceil((writes.resetAt - now) / 1000));
      return { ...verdict, refusal: { refusal: 'rate_limited', retryAfter, resetAt: writes.resetAt } };
    });
  }
}

function admitted(
  { route, path }: Match,
  action: string | null,
  subject: Subject | null,
  decision: Decision | null,
): Admitted {
  return { route, path, action, subject, decision };
}

function refused(
  refusal: Refusal,
  route: Route | null,
  action: string | null,
  subject: Subject | null,
  decision: Decision | null = null,
): Refused {
  return { refusal, route, action, subject, decision };
}

/** The rules of a hypothetical decision, and what the gate looks up for it. */
export type WhatIf = Omit<GateServices, 'lastSeen' | 'writeLimit'>;

/**
 * Returns a gate without a trace, for `explain`, `check --expect`, `policy diff`, the shadow policy and
 * rechecks.
 */
export function whatIfGate(parts: WhatIf): Gate {
  return new Gate({
    ...parts,
    tokenLimits: parts.tokenLimits.withoutRate(),
    lastSeen: { note: () => undefined },
    writeLimit: null,
  });
}

/** Whether a browser, or a proxy on its behalf, sends the credential by itself. */
function isAmbient({ credential }: Subject, { scheme, jwtPlace }: RequestHead): boolean {
  return credential === 'session' || scheme === 'basic' || jwtPlace !== AUTHORIZATION;
}

/** A token's use must not prevent anyone from revoking it. */
function revokes({ method }: RequestHead, { endpoint }: Route): boolean {
  return endpoint !== null && method === 'DELETE';
}

/** For an endpoint that checks a password itself; a browser's cookie still requires the same origin. */
function withoutCredential(head: RequestHead, match: Match, ownOrigins: ReadonlySet<string>): Verdict {
  const refusal = refuseCrossOrigin(head, ownOrigins);
  return refusal === undefined
    ? admitted(match, null, null, null)
    : refused(refusal, match.route, null, null);
}
