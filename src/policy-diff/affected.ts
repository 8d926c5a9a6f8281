import type { ServiceLimit } from './askers.js';
import type { Affected } from './report.js';

/** A sender of requests whose decision changes. */
export interface AffectedAsker {
  readonly role: string | null;
  /** null for a session, and without a credential. */
  readonly scope: string | null;
  readonly limit: ServiceLimit;
  /** The condition in words; empty when there is none. */
  readonly condition: string;
}

/** A row without any senders, which other rows extend. */
export const NOBODY: Affected = {
  everybody: false,
  anonymous: false,
  roles: [],
  sessions: false,
  scopes: [],
  service_limits: [],
  conditions: [],
};

/**
 * Combines affected senders into few rows. A row stands for every combination of what it lists, and
 * for no other.
 */
export function affectedRows(askers: readonly AffectedAsker[]): Affected[] {
  const rows: Affected[] = [];
  const byRole = groupBy(askers, ({ role }) => role);
  const merged = new Map<string, { row: Affected; roles: string[] }>();
  for (const [role, own] of byRole) {
    if (role === null) {
      rows.push({ ...NOBODY, anonymous: true, conditions: conditionsOf(own) });
      continue;
    }
    for (const row of rowsOfRole(own)) {
      const key = JSON.stringify(row);
      const known = merged.get(key);
      if (known === undefined) merged.set(key, { row, roles: [role] });
      else known.roles.push(role);
    }
  }
  for (const { row, roles } of merged.values()) rows.push({ ...row, roles });
  return rows;
}

function rowsOfRole(askers: readonly AffectedAsker[]): Affected[] {
  const sessions = conditionsOf(askers.filter(({ scope }) => scope === null));
  const tokens = askers.filter(({ scope }) => scope !== null);
  const products = tokenProducts(tokens);
  const same = products.find(({ conditions }) => JSON.stringify(conditions) === JSON.stringify(sessions));
  const hasSession = askers.length > tokens.length;
  const rows: Affected[] = products.map((each) => ({
    ...NOBODY,
    ...each,
    sessions: hasSession && each === same,
  }));
  if (hasSession && same === undefined) rows.push({ ...NOBODY, sessions: true, conditions: sessions });
  return rows;
}

/** Groups tokens into products of scopes, limits and conditions. */
function tokenProducts(tokens: readonly AffectedAsker[]) {
  const byScope = [...groupBy(tokens, ({ scope }) => scope ?? '')].map(([scope, own]) => {
    const byLimit = [...groupBy(own, ({ limit }) => limit)].map(([limit, rest]) => ({
      limit,
      conditions: conditionsOf(rest),
    }));
    const limits = group(byLimit, ({ conditions }) => JSON.stringify(conditions));
    return { scope, limits };
  });
  return group(byScope, ({ limits }) => JSON.stringify(limits)).flatMap((alike) =>
    (alike[0]?.limits ?? []).map((limits) => ({
      scopes: alike.map(({ scope }) => scope),
      service_limits: limits.map(({ limit }) => limit),
      conditions: limits[0]?.conditions ?? [],
    })),
  );
}

function conditionsOf(askers: readonly AffectedAsker[]): string[] {
  const conditions = new Set(askers.map(({ condition }) => condition));
  return conditions.has('') ? [] : [...conditions].toSorted();
}

function group<T>(values: readonly T[], key: (value: T) => string): T[][] {
  return [...groupBy(values, key).values()];
}

function groupBy<T, K>(values: readonly T[], key: (value: T) => K): Map<K, T[]> {
  const groups = new Map<K, T[]>();
  for (const value of values) {
    const known = groups.get(key(value));
    if (known === undefined) groups.set(key(value), [value]);
    else known.push(value);
  }
  return groups;
}
