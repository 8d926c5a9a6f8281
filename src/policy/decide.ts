// src/policy: routes, roles and scopes: the decision, and why.
// May import observe and all below.
// `Policy.decide` decides; `Router` in `routes.ts` finds the route.

import type { JwtSubject, Subject, TokenSubject } from '../domain/credential.js';
import type { Refusal } from '../domain/refusal.js';
import type { Token } from '../domain/token.js';

export interface PolicyTables {
  readonly roles: Readonly<Record<string, Rules>>;
  readonly scopes: Readonly<Record<string, Rules>>;
  /** What a service-limited token may never do, regardless of its scope. */
  readonly service_limited: Pick<Rules, 'deny'>;
}

type Check = 'scope' | 'service_limited' | 'service' | 'role';

export interface Decision {
  readonly allowed: boolean;
  /** The check that decided: the first that refused, or the last one, `role`. */
  readonly reason: Check;
  /** null when no rule did: no `deny` matches, or the token's own list of services decided. */
  readonly rule: Rule | null;
  /** A sentence that tells the client why it was refused; empty when it is allowed. */
  readonly detail: string;
}

/** Message for a read-only token that attempts a write; clients depend on its wording. */
const READ_ONLY = 'Read only tokens are not allowed to access this endpoint';

const NOT_LIMITED: Decision = { allowed: true, reason: 'service_limited', rule: null, detail: '' };
const WITHIN_SERVICES: Decision = { allowed: true, reason: 'service', rule: null, detail: '' };

export class Policy {
  /** The value of `X-Auth-Scope` for a session: the scopes that allow everything, or all scopes. */
  readonly sessionScope: string;
  readonly #roles: RuleTable;
  readonly #scopes: RuleTable;
  readonly #limited: RuleTable;
  readonly #noScope: Rule;

  constructor(tables: PolicyTables, lines: Lines = {}) {
    const limited = { service_limited: { allow: ['*'], deny: tables.service_limited.deny } };
    this.#roles = new RuleTable('role', tables.roles, ['policy', 'roles'], lines);
    this.#scopes = new RuleTable('scope', tables.scopes, ['policy', 'scopes'], lines);
    this.#limited = new RuleTable('service_limited', limited, ['policy'], lines);
    this.#noScope = { effect: 'unknown', pattern: null, position: positionOf(['policy', 'scopes'], lines) };
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

  /**
   * Whether a token allows everything that another one allows, by scopes and services. False when uncertain.
   */
  tokenIncludes(wide: Token, narrow: Token): boolean {
    const isWithin = (scope: string) => wide.scopes.some((each) => this.#scopes.rowIncludes(each, scope));
    if (!narrow.scopes.every(isWithin)) return false;
    if (wide.services.length === 0) return true;
    return narrow.services.length > 0 && narrow.services.every((id) => wide.services.includes(id));
  }

  /** @param service null on a route that has none, undefined when the request does not name it */
  decide(subject: Subject, action: string, service: string | null | undefined): Decision {
    if (subject.credential !== 'session') {
      const scope = this.#byScope(subject, action);
      if (!scope.allowed) return scope;
      if (subject.token.services.length > 0) {
        const limit = this.#limited.evaluate('service_limited', action);
        if (!limit.allowed) return limit;
        const within = byService(subject, action, service);
        if (!within.allowed) return within;
      }
    }
    return this.#roles.evaluate(subject.user.role, action);
  }

  /** Decides by scopes alone, for an action of every role; null for a session, which has every scope. */
  decideByScope(subject: Subject, action: string): Decision | null {
    return subject.credential === 'session' ? null : this.#byScope(subject, action);
  }

  /** Returns the result of every check that applies, in order, even after the one that decided. */
  explainChecks(subject: Subject, action: string, service: string | null | undefined): Decision[] {
    const role = this.#roles.evaluate(subject.user.role, action);
    if (subject.credential === 'session') return [role];
    const scope = this.#byScope(subject, action);
    if (subject.token.services.length === 0) return [scope, role];
    const limit = this.#limited.evaluate('service_limited', action);
    return [scope, limit.allowed ? NOT_LIMITED : limit, byService(subject, action, service), role];
  }

  #byScope({ token }: TokenSubject | JwtSubject, action: string): Decision {
    let last: Decision | undefined;
    for (const scope of token.scopes) {
      last = this.#scopes.evaluate(scope, action);
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

export function policyRefusal(decision: Decision, action: string): Refusal | undefined {
  return decision.allowed ? undefined : { refusal: decision.reason, action, detail: decision.detail };
}

export function limitedDetail(action: string): string {
  return `A token limited to services is not allowed to perform ${action}`;
}

export interface Rules {
  readonly allow?: readonly string[] | undefined;
  readonly deny?: readonly string[] | undefined;
}

/**
 * Whether a pattern covers an action `resource:verb`; a `*` stands for everything, any resource or any verb.
 */
export function covers(pattern: string, action: string): boolean {
  if (pattern === '*' || pattern === action) return true;
  const [resource, verb] = split(pattern);
  const [actionResource, actionVerb] = split(action);
  return (resource === '*' || resource === actionResource) && (verb === '*' || verb === actionVerb);
}

/** Whether a set of rules allows an action: something allows it and nothing denies it. */
export function allows(rules: Rules, action: string): boolean {
  if (rules.deny?.some((pattern) => covers(pattern, action))) return false;
  return rules.allow?.some((pattern) => covers(pattern, action)) ?? false;
}

function split(text: string): [string, string] {
  const colon = text.indexOf(':');
  return [text.slice(0, colon), text.slice(colon + 1)];
}

/** Whether `wide` allows everything that `narrow` allows. False when uncertain. */
export function includes(wide: Rules, narrow: Rules): boolean {
  const { allow = [], deny = [] } = narrow;
  const isAllowed = (pattern: string) => wide.allow?.some((each) => contains(each, pattern)) === true;
  const isHarmless = (denied: string) =>
    deny.some((each) => contains(each, denied)) || !allow.some((each) => overlap(each, denied));
  return allow.every(isAllowed) && (wide.deny ?? []).every(isHarmless);
}

function contains(wide: string, narrow: string): boolean {
  return covers(wide, narrow === '*' ? '*:*' : narrow);
}

/** Whether an action may exist that both patterns cover. */
function overlap(a: string, b: string): boolean {
  const [resourceA = '', verbA = '*'] = a.split(':', 2);
  const [resourceB = '', verbB = '*'] = b.split(':', 2);
  return overlaps(resourceA, resourceB) && overlaps(verbA, verbB);
}

function overlaps(a: string, b: string): boolean {
  return a === '*' || b === '*' || a === b;
}

/** The line of each part of the configuration file, by its keys from the root, joined by dots. */
export type Lines = Readonly<Record<string, number>>;

export interface ConfigPosition {
  readonly path: string;
  readonly line: number | null;
}

export interface Rule {
  /** `no_allow`: no pattern matched; `unknown`: no table has the name. */
  readonly effect: 'allow' | 'deny' | 'no_allow' | 'unknown';
  readonly pattern: string | null;
  readonly position: ConfigPosition;
}

const DETAILS = {
  role: (name: string, action: string) => `The role ${name} is not allowed to perform ${action}`,
  scope: (name: string, action: string) => scopeDetail([name], action),
  service_limited: (_name: string, action: string) => limitedDetail(action),
};

/** A table of rules by name (roles, scopes) that evaluates each action once. */
class RuleTable {
  readonly #reason: keyof typeof DETAILS;
  readonly #rows = new Map<string, { rules: Rules; decisions: Map<string, Decision> }>();
  readonly #path: readonly string[];
  readonly #lines: Lines;

  constructor(
    reason: keyof typeof DETAILS,
    table: Readonly<Record<string, Rules>>,
    path: readonly string[],
    lines: Lines,
  ) {
    for (const [name, rules] of Object.entries(table)) this.#rows.set(name, { rules, decisions: new Map() });
    this.#reason = reason;
    this.#path = path;
    this.#lines = lines;
  }

  someAllows(action: string): boolean {
    return [...this.#rows.values()].some(({ rules }) => allows(rules, action));
  }

  /** Whether a row allows everything that another one allows. Returns false when uncertain. */
  rowIncludes(wide: string, narrow: string): boolean {
    if (wide === narrow) return true;
    const [wideRow, narrowRow] = [this.#rows.get(wide), this.#rows.get(narrow)];
    return narrowRow === undefined || (wideRow !== undefined && includes(wideRow.rules, narrowRow.rules));
  }

  /** Actions come from the configuration, so the cache stays small. */
  evaluate(name: string, action: string): Decision {
    const row = this.#rows.get(name);
    if (row === undefined) return this.#decision(this.#rule('unknown', null, []), name, action);
    let decision = row.decisions.get(action);
    if (decision === undefined) {
      decision = this.#decision(this.#find(name, row.rules, action), name, action);
      row.decisions.set(action, decision);
    }
    return decision;
  }

  #decision(rule: Rule, name: string, action: string): Decision {
    const allowed = rule.effect === 'allow';
    const detail = allowed ? '' : DETAILS[this.#reason](name, action);
    return { allowed, reason: this.#reason, rule, detail };
  }

  #find(name: string, { allow = [], deny = [] }: Rules, action: string): Rule {
    const denied = deny.findIndex((pattern) => covers(pattern, action));
    if (denied >= 0) return this.#rule('deny', deny[denied] as string, [name, 'deny', denied]);
    const allowed = allow.findIndex((pattern) => covers(pattern, action));
    if (allowed >= 0) return this.#rule('allow', allow[allowed] as string, [name, 'allow', allowed]);
    return this.#rule('no_allow', null, [name]);
  }

  #rule(effect: Rule['effect'], pattern: string | null, below: readonly (string | number)[]): Rule {
    return { effect, pattern, position: positionOf([...this.#path, ...below], this.#lines) };
  }
}

export function positionOf(path: readonly (string | number)[], lines: Lines): ConfigPosition {
  const key = path.join('.');
  return { path: key, line: (Object.hasOwn(lines, key) ? lines[key] : undefined) ?? null };
}

/** Formats a position for people: `policy.roles.engineer.deny.0, line 41`. */
export function describePosition({ path, line }: ConfigPosition): string {
  return line === null ? `${path}, built in` : `${path}, line ${line}`;
}
