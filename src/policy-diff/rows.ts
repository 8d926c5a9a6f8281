import type { Route } from '../policy/route.js';
import { type AffectedSender, affectedRows, EMPTY_ROW } from './affected.js';
import type { Affected, Change, ChangedDecisions, ChangedRoute, ReportedRoute, ReportedRule } from './report.js'; // prettier-ignore
import type { RequestClass, RoutePair } from './requests.js';
import type { DecidingRule } from './rules.js';
import type { Side } from './side.js';

/** Senders for whom the decision on a class of requests changes, with the change and its rules. */
export interface Finding {
  readonly change: Change;
  readonly rules: readonly [DecidingRule, DecidingRule];
  everybody: boolean;
  readonly senders: AffectedSender[];
}

/** Groups changes into rows: routes with the same change, rules and senders share a row. */
export class Rows {
  readonly #rows = new Map<
    string,
    { row: Omit<ChangedDecisions, 'routes'>; routes: Map<string, ChangedRoute> }
  >();
  readonly #sides: readonly [Side, Side];

  constructor(sides: readonly [Side, Side]) {
    this.#sides = sides;
  }

  add({ pairs, head }: RequestClass, found: ReadonlyMap<string, Finding>): void {
    for (const { change, rules, everybody, senders } of found.values()) {
      const [rule, against] = rules.map(reportedRule) as [ReportedRule, ReportedRule];
      for (const who of everybody ? [everybodyOf(senders)] : affectedRows(senders)) {
        const row = { change, ...who, rule, against_rule: against };
        const key = JSON.stringify(row);
        let known = this.#rows.get(key);
        if (known === undefined) this.#rows.set(key, (known = { row, routes: new Map() }));
        for (const pair of pairs) this.#addRoute(known.routes, pair, head.method);
      }
    }
  }

  of(change: Change): ChangedDecisions[] {
    return [...this.#rows.values()]
      .filter(({ row }) => row.change === change)
      .map(({ row, routes }) => ({ ...row, routes: [...routes.values()] }));
  }

  /** Adds a route to a row. Reads and writes are classes of their own, but belong to one route. */
  #addRoute(known: Map<string, ChangedRoute>, { routes, examples, host }: RoutePair, method: string): void {
    const [config = null, against = null] = routes.map((route, i) => reportedRoute(this.#sides[i] as Side, route, method));
    const key = JSON.stringify([config, against, host]);
    known.set(key, { examples: { ...Object.fromEntries(examples), ...known.get(key)?.examples }, config, against, host });
  } // prettier-ignore
}

function everybodyOf(senders: readonly AffectedSender[]): Affected {
  const [row] = affectedRows(senders);
  return { ...EMPTY_ROW, ...row, everybody: true };
}

/** Returns a rule as the report names it. */
export function reportedRule({ check, text, path, file, line }: DecidingRule): ReportedRule {
  return { check, text, path, file, line };
}

/** Returns a route as the report names it; null for none. */
export function reportedRoute(side: Side, route: Route | null, method: string): ReportedRoute | null {
  if (route === null) return null;
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
