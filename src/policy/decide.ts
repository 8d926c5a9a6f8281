import type { JwtSubject, Subject, TokenSubject } from '../domain/credential.js';
import type { Token } from '../domain/token.js';
import type { Rules } from './patterns.js';
import { type Lines, type Rule, RuleTable, positionOf } from './rules.js';

/** The tables of the policy, as the configuration holds them. */
export interface PolicyTables {
  readonly roles: Readonly<Record<string, Rules>>;
  readonly scopes: Readonly<Record<string, Rules>>;
  /** What a token that is limited to services may never do, whatever its scope. */
  readonly service_limited: Pick<Rules, 'deny'>;
}

/** What a policy asks, in this order. A session is asked for its role only, an unlimited token not for services. */
type Check = 'scope' | 'service_limited' | 'service' | 'role';

/** What one check said, and so what the policy said when it was the one that settled it. */
export interface Decision {
  readonly allowed: boolean;
  /** The check that settled it: the first that refused, or the last one, `role`. */
  readonly reason: Check;
  /** The rule that settled it; null where no rule did: no `deny` fits, or the token's own list of services did. */
  readonly rule: Rule | null;
  /** A sentence for the client that says why not; empty when it is allowed. */
  readonly detail: string;
}

/** Answer for a read-only token that tries to change something; clients rely on these words. */
const READ_ONLY = 'Read only tokens are not allowed to access this endpoint';

const NOT_LIMITED: Decision = { allowed: true, reason: 'service_limited', rule: null, detail: '' };
const WITHIN_SERVICES: Decision = { allowed: true, reason: 'service', rule: null, detail: '' };

/**
 * Decides whether a subject may perform an action on a service.
 *
 * Every table is worked out once for each action it is asked about, so a decision is a few map look-ups
 * and makes no object unless it refuses.
 */
export class Policy {
  /** What `X-Auth-Scope` says of a session: the scopes that allow everything, or all of them. */
  readonly sessionScope: string;
  readonly #roles: RuleTable<Decision>;
  readonly #scopes: RuleTable<Decision>;
  readonly #limited: RuleTable<Decision>;
  readonly #noScope: Rule;

  /** @param lines where the tables stand in the file; without them every rule counts as built in */
  constructor(tables: PolicyTables, lines: Lines = {}) {
    this.#roles = new RuleTable(tables.roles, ['policy', 'roles'], lines, roleDecision);
    this.#scopes = new RuleTable(tables.scopes, ['policy', 'scopes'], lines, scopeDecision);
    this.#limited = new RuleTable(
      { service_limited: { allow: ['*'], deny: tables.service_limited.deny } },
      ['policy'],
      lines,
      limitDecision,
    );
    this.#noScope = { effect: 'unknown', pattern: null, place: positionOf(['policy', 'scopes'], lines) };
    const all = Object.entries(tables.scopes);
    const full = all.filter(([, { allow, deny }]) => allow?.includes('*') === true && !deny?.length);
    this.sessionScope = (full.length > 0 ? full : all).map(([name]) => name).join(' ');
  }

  someRoleAllows(action: string): boolean {
    return this.#roles.someAllows(action);
  }

  someScopeAllows(action: string): boolean {
    return this.#scopes.someAllows(action);
  }

  /** Whether a role may do everything that another one may. In doubt it says no. */
  roleIncludes(wide: string, narrow: string): boolean {
    return this.#roles.rowIncludes(wide, narrow);
  }

  /** Whether a token may do everything by its scopes and services that another one may by its own. In doubt it says no. */
  tokenIncludes(wide: Token, narrow: Token): boolean {
    const isWithin = (scope: string) => wide.scopes.some((each) => this.#scopes.rowIncludes(each, scope));
    if (!narrow.scopes.every(isWithin)) return false;
    if (wide.services.length === 0) return true;
    return narrow.services.length > 0 && narrow.services.every((id) => wide.services.includes(id));
  }

  /**
   * Says whether a subject may do it, and which rule settled that.
   *
   * @param service the service of the request; null on a route that has none, undefined when the
   *   route has one and the request does not name it
   */
  decide(subject: Subject, action: string, service: string | null | undefined): Decision {
    if (subject.credential !== 'session') {
      const scope = this.#byScope(subject, action);
      if (!scope.allowed) return scope;
      if (subject.token.services.length > 0) {
        const limit = this.#limited.settle('service_limited', action);
        if (!limit.allowed) return limit;
        const within = byService(subject, action, service);
        if (!within.allowed) return within;
      }
    }
    return this.#roles.settle(subject.user.role, action);
  }

  /** What every check says that applies to the subject, in order, also behind the one that settled it. */
  consider(subject: Subject, action: string, service: string | null | undefined): Decision[] {
    const role = this.#roles.settle(subject.user.role, action);
    if (subject.credential === 'session') return [role];
    const scope = this.#byScope(subject, action);
    if (subject.token.services.length === 0) return [scope, role];
    return [
      scope,
      this.#limited.settle('service_limited', action),
      byService(subject, action, service),
      role,
    ];
  }

  #byScope({ token }: TokenSubject | JwtSubject, action: string): Decision {
    let last: Decision | undefined;
    for (const scope of token.scopes) {
      last = this.#scopes.settle(scope, action);
      if (last.allowed) return last;
    }
    if (last !== undefined && token.scopes.length === 1) return last;
    return {
      allowed: false,
      reason: 'scope',
      rule: last?.rule ?? this.#noScope,
      detail: scopeDetail(token.scopes, action),
    };
  }
}

function scopeDecision(allowed: boolean, rule: Rule, name: string, action: string): Decision {
  return { allowed, reason: 'scope', rule, detail: allowed ? '' : scopeDetail([name], action) };
}

function limitDecision(allowed: boolean, rule: Rule, _name: string, action: string): Decision {
  return allowed ? NOT_LIMITED : { allowed, reason: 'service_limited', rule, detail: limitedDetail(action) };
}

function roleDecision(allowed: boolean, rule: Rule, name: string, action: string): Decision {
  const detail = allowed ? '' : `The role ${name} is not allowed to perform ${action}`;
  return { allowed, reason: 'role', rule, detail };
}

function byService(
  { token }: TokenSubject | JwtSubject,
  action: string,
  service: string | null | undefined,
): Decision {
  if (service === null || (service !== undefined && token.services.includes(service))) return WITHIN_SERVICES;
  const detail =
    service === undefined
      ? `This token is limited to services and the request names none for ${action}`
      : `This token is not allowed to perform ${action} on service ${service}`;
  return { allowed: false, reason: 'service', rule: null, detail };
}

function scopeDetail(scopes: readonly string[], action: string): string {
  const readOnly = scopes.length > 0 && scopes.every((scope) => scope === 'global:read');
  return readOnly ? READ_ONLY : `The scope ${scopes.join(' ')} is not allowed to perform ${action}`;
}

/** Why a token that is limited to services may not do something whatever its scope. */
export function limitedDetail(action: string): string {
  return `A token limited to services is not allowed to perform ${action}`;
}
