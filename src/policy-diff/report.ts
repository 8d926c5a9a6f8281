import type { Match } from '../policy/route.js';
import type { RequestClass } from './sample.js';
import type { DecidingRule } from './rules.js';
import type { ServiceLimit, Side } from './side.js';

export type Change = 'newly_allowed' | 'newly_refused';

/** A route as the report names it; null stands for a refused path. */
export interface ReportedRoute {
  /** `*` for `default_route`. */
  readonly path: string;
  readonly action: string | null;
  readonly file: string | null;
  readonly line: number | null;
  /** Name of the built-in endpoint; null for any other route. */
  readonly endpoint: string | null;
}

export interface ChangedRoute {
  readonly examples: Readonly<Record<string, string>>;
  readonly config: ReportedRoute | null;
  readonly against: ReportedRoute | null;
  /** The host, if the configurations name it; null for all others. */
  readonly host: string | null;
}

/** Affected senders, in every combination: each role with a session, and with each scope and limit. */
interface Affected {
  readonly everybody: boolean;
  /** Senders without a credential, or with an invalid one. */
  readonly anonymous: boolean;
  readonly roles: readonly string[];
  readonly sessions: boolean;
  /** A token with several is affected like one of them, unless another scope allows the request. */
  readonly scopes: readonly string[];
  readonly service_limits: readonly ServiceLimit[];
  /** A condition on the record that the request names, in words; empty: none. */
  readonly conditions: readonly string[];
}

export interface ChangedDecisions extends Affected {
  readonly change: Change;
  readonly routes: readonly ChangedRoute[];
  readonly rule: DecidingRule;
  readonly against_rule: DecidingRule;
}

export interface PolicyDiff {
  readonly newly_allowed: readonly ChangedDecisions[];
  readonly newly_refused: readonly ChangedDecisions[];
  readonly incomplete: readonly string[];
  readonly examined: {
    /** Pairs of routes that one request can match. */
    readonly route_pairs: number;
    readonly roles: number;
    readonly scopes: number;
    readonly judgements: number;
  };
}

interface AffectedSender {
  readonly role: string | null;
  /** null for a session, and without a credential. */
  readonly scope: string | null;
  readonly limit: ServiceLimit;
}

export interface Finding {
  readonly change: Change;
  readonly rules: readonly [DecidingRule, DecidingRule];
  readonly condition: string;
  everybody: boolean;
  readonly senders: AffectedSender[];
}

/** Groups changes into rows: routes with the same change, rules and senders share a row. */
export class Rows {
  readonly #rows = new Map<string, { row: Omit<ChangedDecisions, 'routes'>; routes: Map<string, ChangedRoute> }>();
  readonly #sides: readonly [Side, Side];

  constructor(sides: readonly [Side, Side]) {
    this.#sides = sides;
  }

  add(requests: RequestClass, found: Iterable<Finding>): void {
    for (const finding of found) {
      const { change, rules, condition } = finding;
      const conditions = condition === '' ? [] : [condition];
      for (const who of affectedRows(finding)) {
        const row = { change, ...NOBODY, ...who, conditions, rule: rules[0], against_rule: rules[1] };
        const key = JSON.stringify(row);
        const known = this.#rows.get(key) ?? { row, routes: new Map<string, ChangedRoute>() };
        this.#rows.set(key, known);
        this.#addRoutes(known.routes, requests);
      }
    }
  }

  of(change: Change): ChangedDecisions[] {
    return [...this.#rows.values()]
      .filter(({ row }) => row.change === change)
      .map(({ row, routes }) => ({ ...row, routes: [...routes.values()] }));
  }

  /** Reads and writes are classes of their own, but belong to one route. */
  #addRoutes(known: Map<string, ChangedRoute>, { pairs, head: { method } }: RequestClass): void {
    for (const { matches, examples, host } of pairs.values()) {
      const config = reportedRoute(this.#sides[0], matches[0], method);
      const against = reportedRoute(this.#sides[1], matches[1], method);
      const key = JSON.stringify([config, against, host]);
      const all = { ...Object.fromEntries(examples), ...known.get(key)?.examples };
      known.set(key, { examples: all, config, against, host });
    }
  }
} // prettier-ignore

export function reportedRoute(side: Side, match: Match | string, method: string): ReportedRoute | null {
  if (typeof match === 'string') return null;
  const { route } = match;
  const { path, position, endpoint } = route;
  const isOwn = endpoint === null && position !== null;
  return {
    path: position?.path === 'default_route' ? '*' : path,
    action: side.actionOf(route, method),
    file: isOwn && position.line !== null ? side.fileOf(position.path) : null,
    line: isOwn ? position.line : null,
    endpoint: endpoint?.name ?? null,
  };
}

const NOBODY = { everybody: false, anonymous: false, roles: [], sessions: false, scopes: [], service_limits: [] }; // prettier-ignore

/** Combines senders into few rows, each of which stands for every combination of what it lists. */
function affectedRows({ everybody, senders }: Finding): Partial<Affected>[] {
  if (everybody) return [{ everybody, anonymous: true }];
  const rows: Partial<Affected>[] = [];
  const merged = new Map<string, { row: Partial<Affected>; roles: string[] }>();
  for (const [role, own] of groupBy(senders, (sender) => sender.role)) {
    if (role === null) rows.push({ anonymous: true });
    else
      for (const row of credentialsOf(own)) {
        const key = JSON.stringify(row);
        const known = merged.get(key) ?? { row, roles: [] };
        merged.set(key, known);
        known.roles.push(role);
      }
  }
  for (const { row, roles } of merged.values()) rows.push({ ...row, roles });
  return rows;
}

/** Groups the senders of one role: scopes with the same limits, and sessions with the first of them. */
function credentialsOf(senders: readonly AffectedSender[]): Partial<Affected>[] {
  const tokens = groupBy(senders, ({ scope }) => scope);
  const sessions = tokens.delete(null);
  const limitsOf = ([, own]: [string | null, AffectedSender[]]) => own.map(({ limit }) => limit);
  const rows = [...groupBy(tokens, (each) => limitsOf(each).join()).values()].map((alike, i) => ({
    sessions: sessions && i === 0,
    scopes: alike.map(([scope]) => scope ?? ''),
    service_limits: alike.slice(0, 1).flatMap(limitsOf),
  }));
  return rows.length === 0 ? [{ sessions }] : rows;
}

function groupBy<T, K>(values: Iterable<T>, keyOf: (value: T) => K): Map<K, T[]> {
  const groups = new Map<K, T[]>();
  for (const value of values) {
    const key = keyOf(value);
    const known = groups.get(key);
    if (known === undefined) groups.set(key, [value]);
    else known.push(value);
  }
  return groups;
}
