import type { ServiceLimit } from './senders.js';
import type { Affected } from './report.js';

/** A sender of requests whose decision changes. */
export interface AffectedSender {
  readonly role: string | null;
  /** null for a session, and without a credential. */
  readonly scope: string | null;
  readonly limit: ServiceLimit;
  /** The condition in words; empty when there is none. */
  readonly condition: string;
}

/** A row without any senders, which other rows extend. */
export const EMPTY_ROW: Affected = {
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
export function affectedRows(senders: readonly AffectedSender[]): Affected[] {
  const rows: Affected[] = [];
  const byRole = groupBy(senders, ({ role }) => role);
  const merged = new Map<string, { row: Affected; roles: string[] }>();
  for (const [role, own] of byRole) {
    if (role === null) {
      rows.push({ ...EMPTY_ROW, anonymous: true, conditions: conditionsOf(own) });
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

function rowsOfRole(senders: readonly AffectedSender[]): Affected[] {
  const sessions = conditionsOf(senders.filter(({ scope }) => scope === null));
  const tokens = senders.filter(({ scope }) => scope !== null);
  const products = tokenProducts(tokens);
  const same = products.find(({ conditions }) => JSON.stringify(conditions) === JSON.stringify(sessions));
  const hasSession = senders.length > tokens.length;
  const rows: Affected[] = products.map((each) => ({
    ...EMPTY_ROW,
    ...each,
    sessions: hasSession && each === same,
  }));
  if (hasSession && same === undefined) rows.push({ ...EMPTY_ROW, sessions: true, conditions: sessions });
  return rows;
}

/** Groups tokens into products of scopes, limits and conditions. */
function tokenProducts(tokens: readonly AffectedSender[]) {
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

function conditionsOf(senders: readonly AffectedSender[]): string[] {
  const conditions = new Set(senders.map(({ condition }) => condition));
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
