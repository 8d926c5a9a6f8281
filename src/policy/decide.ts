import type { Subject } from '../domain/credential.js';
import type { Refusal } from '../domain/refusal.js';
import { allows, type Rules } from './patterns.js';

/** The tables of the policy, as the configuration holds them. */
export interface PolicyTables {
  readonly roles: Readonly<Record<string, Rules>>;
  readonly scopes: Readonly<Record<string, Rules>>;
  /** What a token that is limited to services may never do, whatever its scope. */
  readonly service_limited: Pick<Rules, 'deny'>;
}

/** Answer for a read-only token that tries to change something; clients rely on these words. */
const READ_ONLY = 'Read only tokens are not allowed to access this endpoint';

/**
 * Decides whether a subject may perform an action on a service.
 *
 * Every table is worked out once for each action it is asked about, so a decision is a few map look-ups.
 */
export class Policy {
  /** What `X-Auth-Scope` says of a session: the scopes that allow everything, or all of them. */
  readonly sessionScope: string;
  readonly #roles: RulesTable;
  readonly #scopes: RulesTable;
  readonly #limited: RulesTable;

  constructor(tables: PolicyTables) {
    this.#roles = new RulesTable(tables.roles);
    this.#scopes = new RulesTable(tables.scopes);
    this.#limited = new RulesTable({ denied: { allow: tables.service_limited.deny } });
    const names = Object.keys(tables.scopes);
    const full = names.filter((name) => {
      const { allow, deny } = tables.scopes[name] ?? {};
      return allow?.includes('*') === true && !deny?.length;
    });
    this.sessionScope = (full.length > 0 ? full : names).join(' ');
  }

  /** Whether the policy has a scope of that name. */
  hasScope(name: string): boolean {
    return this.#scopes.has(name);
  }

  /**
   * Says why a subject may not do it, or nothing when it may.
   *
   * @param service the service of the request; null on a route that has none, undefined when the
   *   route has one and the request does not name it
   */
  refuse(subject: Subject, action: string, service: string | null | undefined): Refusal | undefined {
    const { credential, user } = subject;
    if (credential !== 'session') {
      const { scopes, services } = subject.token;
      if (!this.#scopesAllow(scopes, action)) return scopeRefusal(scopes, action);
      if (services.length > 0) {
        if (this.#limited.allows('denied', action)) {
          const detail = `A token limited to services is not allowed to perform ${action}`;
          return { refusal: 'service_limited', action, detail };
        }
        if (service !== null && !(service !== undefined && services.includes(service))) {
          return { refusal: 'service', action, detail: serviceDetail(action, service) };
        }
      }
    }
    if (!this.roleAllows(user.role, action)) {
      return { refusal: 'role', action, detail: `The role ${user.role} is not allowed to perform ${action}` };
    }
    return undefined;
  }

  /** Whether a role allows an action. A role that the policy does not know allows nothing. */
  roleAllows(role: string, action: string): boolean {
    return this.#roles.allows(role, action);
  }

  #scopesAllow(scopes: readonly string[], action: string): boolean {
    for (const scope of scopes) if (this.#scopes.allows(scope, action)) return true;
    return false;
  }
}

/** A table of rules by name that remembers its answer for each action. */
class RulesTable {
  readonly #rows = new Map<string, { rules: Rules; known: Map<string, boolean> }>();

  constructor(table: Readonly<Record<string, Rules>>) {
    for (const [name, rules] of Object.entries(table)) this.#rows.set(name, { rules, known: new Map() });
  }

  has(name: string): boolean {
    return this.#rows.has(name);
  }

  /** Actions come from the configuration, so what is remembered stays small. */
  allows(name: string, action: string): boolean {
    const row = this.#rows.get(name);
    if (row === undefined) return false;
    let answer = row.known.get(action);
    if (answer === undefined) row.known.set(action, (answer = allows(row.rules, action)));
    return answer;
  }
}

function scopeRefusal(scopes: readonly string[], action: string): Refusal {
  const readOnly = scopes.length > 0 && scopes.every((scope) => scope === 'global:read');
  const detail = readOnly ? READ_ONLY : `The scope ${scopes.join(' ')} is not allowed to perform ${action}`;
  return { refusal: 'scope', action, detail };
}

function serviceDetail(action: string, service: string | undefined): string {
  return service === undefined
    ? `This token is limited to services and the request names none for ${action}`
    : `This token is not allowed to perform ${action} on service ${service}`;
}
