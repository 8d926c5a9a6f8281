import type { SessionSubject, Subject, TokenSubject } from '../domain/credential.js';
import { restrictedTo, type Token } from '../domain/token.js';
import type { User } from '../domain/user.js';
import { type Gate, type GateServices, type Verdict, type WhatIf, whatIfGate } from './gate.js';
import type { MaybePromise } from '../util/async.js';
import type { Refusal } from '../domain/refusal.js';
import type { EpochMs } from '../util/time.js';
import type { RequestHead } from '../http/head.js';
import type { Policy } from '../policy/decide.js';
import type { Sites } from '../policy/sites.js';
import { type Owner, Ownership } from './ownership.js';

/** The sender of a hypothetical request: nobody, one with an invalid credential, or a subject. */
export type Sender = 'anonymous' | 'invalid' | Subject;

/** Returns an authenticator to which every request comes from one sender. */
export function authenticatorOf(sender: Sender): WhatIf['authenticator'] {
  const isValid = typeof sender !== 'string' && !sender.user.locked;
  return {
    isSent: () => sender !== 'anonymous',
    authenticate: () => (isValid ? sender : { refusal: 'unauthenticated' }),
  };
}

export function syntheticUser(role: string, customerId: string, id = 'somebody'): User {
  return {
    id, customerId, login: id, name: '', role, passwordHash: null, otpSecret: null, locked: false, createdAt: 0, updatedAt: 0,
  };
} // prettier-ignore

export function syntheticSession(user: User): SessionSubject {
  const session = {
    digest: '', id: '', userId: user.id, createdAt: 0, endsAt: 0, idleEndsAt: 0, lastSeenAt: 0, ip: '',
    userAgent: null,
  }; // prettier-ignore
  return { credential: 'session', user, session };
}

/** Returns a synthetic token of a user. It has no id, so no identity header names one. */
export function syntheticToken(
  user: User,
  scope: string | readonly string[],
  services: readonly string[],
): TokenSubject {
  const scopes = typeof scope === 'string' ? scope.split(' ').filter((name) => name !== '') : scope;
  const token = { ...storedToken('', user.id), scopes, ...restrictedTo(services) };
  return { credential: 'token', user, token };
}

/** Returns a token of a user with a scope or services, or a session if neither is given. */
export function syntheticSubject(
  user: User,
  {
    scope,
    services,
  }: { readonly scope?: string | undefined; readonly services?: readonly string[] | undefined },
): SessionSubject | TokenSubject {
  if (scope === undefined && services === undefined) return syntheticSession(user);
  return syntheticToken(user, scope ?? 'global', services ?? []);
}

/** Returns a synthetic token without permissions, as a store would hold it. */
export function storedToken(id: string, userId: string): Token {
  return {
    id, digest: '', kind: 'token', userId, name: '', scopes: [], services: [], serviceId: null, createdAt: 0, updatedAt: 0, expiresAt: null,
  };
} // prettier-ignore

export interface OtherRules {
  readonly sites: Sites;
  readonly policy: Policy;
}

/** The refusal that stands for something that was not looked up. */
const NOT_LOOKED_UP: Refusal = { refusal: 'store_unavailable' };

/**
 * Evaluates a request by other rules, after the gate decided it by its own, with the gate's findings. The
 * store is asked only for what the gate did not need, and nothing is counted or recorded.
 */
export class ShadowGate {
  readonly #parts: GateServices;
  readonly #rules: Ownership;
  readonly #gate: Gate;
  /** The gate's findings about the current request. */
  #verdict: Verdict | null = null;
  #mayAsk = true;

  constructor(parts: GateServices, { sites, policy }: OtherRules) {
    const { tokenLimits } = parts;
    this.#parts = parts;
    this.#rules = new Ownership({ trace: async () => undefined }, policy);
    this.#gate = whatIfGate({
      sites,
      policy,
      authenticator: this,
      ownership: this,
      tokenLimits,
      tokens: this,
    });
  }

  /** @param mayAsk whether the store may be asked for a credential that the gate did not check */
  evaluate(head: RequestHead, verdict: Verdict, mayAsk: boolean): MaybePromise<Verdict> {
    this.#verdict = verdict;
    this.#mayAsk = mayAsk;
    try {
      return this.#gate.evaluate(head, Date.now());
    } finally {
      // Another request may be in progress when later continuations run.
      this.#verdict = null;
      this.#mayAsk = true;
    }
  }

  isSent(head: RequestHead): boolean {
    return this.#parts.authenticator.isSent(head);
  }

  authenticate(head: RequestHead, now: EpochMs): MaybePromise<Subject | Refusal> {
    if (this.#verdict !== null) {
      const { subject, refusal } = this.#verdict;
      if (refusal !== undefined && OF_CREDENTIAL.has(refusal.refusal)) return refusal;
      if (subject !== null) return subject;
    }
    return this.#mayAsk || !this.isSent(head)
      ? this.#parts.authenticator.authenticate(head, now)
      : NOT_LOOKED_UP;
  }

  async ofToken(id: string, subject: Subject): Promise<Owner | Refusal> {
    const verdict = this.#verdict;
    if (verdict !== null && verdict.route?.endpoint?.id === 'token') {
      if (verdict.isOthers === true) return 'other';
      if (verdict.refusal === undefined) return 'self';
      if (verdict.refusal.refusal === 'not_found') return verdict.refusal;
    }
    return this.#parts.ownership.ofToken(id, subject);
  }

  ofCustomer(id: string, subject: Subject): Owner | Refusal {
    return this.#rules.ofCustomer(id, subject);
  }

  refuseOthers(subject: Subject, action: string): Refusal | undefined {
    return this.#rules.refuseOthers(subject, action);
  }

  async hasActive(userId: string, customerId: string, now: EpochMs): Promise<boolean | 'similar'> {
    const verdict = this.#verdict;
    if (verdict?.guarded?.userId === userId) return verdict.guarded.isActive;
    return this.#parts.tokens.hasActive(userId, customerId, now);
  }
}

/** Whether there is no verdict because something was not looked up. */
export function isUnknown({ refusal }: Verdict): boolean {
  return refusal === NOT_LOOKED_UP;
}

/** Refusals about the credential: any route that takes one refuses likewise. */
const OF_CREDENTIAL: ReadonlySet<string> = new Set([
  'unauthenticated',
  'token_expired',
  'address',
  'token_rate',
]);
