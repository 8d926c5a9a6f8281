import { type Awaitable, whenReady } from '../domain/awaitable.js';
import type { Subject } from '../domain/credential.js';
import type { Refusal } from '../domain/refusal.js';
import type { EpochMs } from '../domain/time.js';
import type { LastSeen } from '../accounts/last-seen.js';
import type { Tokens } from '../accounts/tokens.js';
import type { RequestHead } from '../http/head.js';
import type { Policy } from '../policy/decide.js';
import {
  type EndpointRule,
  guardedUser,
  isRead,
  type Match,
  type Route,
  type Router,
} from '../policy/routes.js';
import type { Authenticator } from './authenticate.js';
import { refuseCrossOrigin } from './same-origin.js';
import { serviceOf } from './service.js';

/** A request that may go on, and what was found out about it on the way. */
export interface Admitted {
  readonly refusal?: undefined;
  readonly route: Route;
  /** The canonical path, in which the route's parameters stand. */
  readonly path: string;
  readonly action: string | null;
  /** Who sent it; null on a route without authentication. */
  readonly subject: Subject | null;
}

/** A request that gets no further. What was found out until then is kept for the log. */
export interface Refused {
  readonly refusal: Refusal;
  readonly route: Route | null;
  readonly action: string | null;
  readonly subject: Subject | null;
}

/** What the gate says of a request. */
export type Verdict = Admitted | Refused;

/**
 * Judges a request. Every entrance goes through here: the proxy, the own endpoints and WebSocket handshakes.
 *
 * The steps, in order: route, credential, same origin, the kind of credential an endpoint takes, policy, and
 * the user guarded by `refuse_if_active_tokens`. The first one that refuses ends it.
 */
export class Gate {
  readonly #router: Router;
  readonly #policy: Policy;
  readonly #authenticator: Authenticator;
  readonly #lastSeen: LastSeen;
  readonly #tokens: Tokens;

  constructor(
    router: Router,
    policy: Policy,
    authenticator: Authenticator,
    lastSeen: LastSeen,
    tokens: Tokens,
  ) {
    this.#router = router;
    this.#policy = policy;
    this.#authenticator = authenticator;
    this.#lastSeen = lastSeen;
    this.#tokens = tokens;
  }

  judge(head: RequestHead, now: EpochMs): Awaitable<Verdict> {
    const match = this.#router.find(head.method, head.path, head.plain);
    if (typeof match === 'string') {
      return { refusal: { refusal: 'malformed', detail: match }, route: null, action: null, subject: null };
    }
    const { route } = match;
    const action = isRead(head.method) ? route.readAction : route.writeAction;
    if (route.auth === 'deny') {
      const detail = `There is nothing at ${head.path}`;
      return { refusal: { refusal: 'not_found', detail }, route, action, subject: null };
    }
    if (route.auth === 'none') return { route, path: match.path, action, subject: null };
    if (route.endpoint?.takes === 'nothing') return withoutCredential(head, match);
    return whenReady(this.#authenticator.authenticate(head, now), (subject) => {
      if ('refusal' in subject) return { refusal: subject, route, action, subject: null };
      this.#lastSeen.note(subject, head.client.address, head.userAgent, now);
      return this.#authorize(head, match, action, subject, now);
    });
  }

  #authorize(
    head: RequestHead,
    match: Match,
    action: string | null,
    subject: Subject,
    now: EpochMs,
  ): Awaitable<Verdict> {
    const { route, path } = match;
    const refusal =
      (subject.credential === 'session' ? refuseCrossOrigin(head) : undefined) ??
      (route.endpoint === null ? undefined : refuseCredentialKind(subject, route.endpoint)) ??
      (action === null ? undefined : this.#policy.refuse(subject, action, serviceOf(head, match)));
    if (refusal !== undefined) return { refusal, route, action, subject };

    const admitted: Admitted = { route, path, action, subject };
    const guarded = guardedUser(match);
    return guarded === undefined ? admitted : this.#guard(guarded, admitted, now);
  }

  /** A user with active tokens can't be deleted, by a proxied request either. */
  async #guard(userId: string, admitted: Admitted, now: EpochMs): Promise<Verdict> {
    const active = await this.#tokens.activeIds(userId, now);
    return active.length === 0 ? admitted : { ...admitted, refusal: { refusal: 'active_tokens' } };
  }
}

/** An endpoint that checks a password of its own. A browser's cookie still makes it a matter of origin. */
function withoutCredential(head: RequestHead, { route, path }: Match): Verdict {
  const refusal = refuseCrossOrigin(head);
  if (refusal !== undefined) return { refusal, route, action: null, subject: null };
  return { route, path, action: null, subject: null };
}

function refuseCredentialKind(subject: Subject, endpoint: EndpointRule): Refusal | undefined {
  const isSession = subject.credential === 'session';
  if (endpoint.takes === 'session' && !isSession) {
    return wrongKind('This endpoint takes a session, not an API token: log in with POST /login');
  }
  if (endpoint.takes === 'token' && isSession) {
    return wrongKind('This endpoint takes an API token, not a session');
  }
  return undefined;
}

function wrongKind(detail: string): Refusal {
  return { refusal: 'wrong_credential_kind', detail };
}
