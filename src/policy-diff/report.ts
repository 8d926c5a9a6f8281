import type { Refusal } from '../domain/refusal.js';
import type { Verdict } from '../gate/gate.js';
import type { Sender } from '../gate/what-if.js';
import type { Decision } from '../policy/decide.js';
import type { Match, Route } from '../policy/route.js';
import type { RequestClass } from './sample.js';
import type { NamedServices, ServiceLimit, Side } from './side.js';

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

export interface DecidingRule {
  /**
   * `route` is the route itself, or the credential that it takes. `path`: the path can be read in
   * two ways. The others are checks of the policy.
   */
  readonly check: Decision['reason'] | 'route' | 'path';
  readonly text: string;
  /** Its keys from the root; null when the route or the token decides. */
  readonly path: string | null;
  readonly file: string | null;
  /** null for a built-in rule. */
  readonly line: number | null;
}

interface Decided {
  readonly side: Side;
  readonly match: Match | string;
  readonly verdict: Verdict;
}

/** The policy check that refused on one side, with its action and that of the route. */
interface RefusedCheck {
  readonly check: Decision['reason'];
  readonly action: string;
  readonly ofRoute: string | null;
}

/** Returns the rules of both sides, one of which refuses. The other's is that of the same check. */
export function decidingRules(
  [a, b]: readonly [Decided, Decided],
  sender: Sender,
  named: NamedServices,
): [DecidingRule, DecidingRule] {
  const { refusal, action } = (a.verdict.refusal === undefined ? b : a).verdict;
  const refused =
    refusal !== undefined && 'action' in refusal
      ? { check: refusal.refusal, action: refusal.action, ofRoute: action }
      : null;
  return [ruleOf(a, refused, sender, named[0]), ruleOf(b, refused, sender, named[1])];
}

function ruleOf(
  { side, match, verdict: { refusal, action, decision } }: Decided,
  refused: RefusedCheck | null,
  sender: Sender,
  named: string | null | undefined,
): DecidingRule {
  if (typeof match === 'string')
    // After a semicolon, the detail may name the path of the sample.
    return { ...byRoute(match.split(';', 1)[0] ?? ''), check: 'path' };
  const allows = refusal === undefined;
  if (refused !== null && typeof sender !== 'string' && (!allows || (action !== null && decision !== null))) {
    const isOfRoute = refused.action === refused.ofRoute;
    const checked = allows && isOfRoute ? (action ?? '') : refused.action;
    const checks = side.policy.explainChecks(sender, checked, isOfRoute ? named : null);
    const check = checks.find(({ reason, allowed }) => reason === refused.check && allowed === allows);
    if (check !== undefined) return byCheck(side, check);
  }
  return byRoute(allows ? allowedText(match.route, action) : refusalText(refusal, match));
}

function byCheck(side: Side, { reason, allowed, rule }: Decision): DecidingRule {
  if (rule === null) {
    const byServices = allowed ? "the token's services allow it" : "the request names none of the token's services"; // prettier-ignore
    const text = reason === 'service' ? byServices : 'not denied to tokens that are limited to services';
    return { check: reason, text, path: null, file: null, line: null };
  }
  const { path, line } = rule.position;
  const file = line === null ? null : side.fileOf(path);
  return {
    check: reason,
    text: EFFECTS[rule.effect].replace('PATTERN', () => rule.pattern ?? ''),
    path,
    file,
    line,
  };
}

const EFFECTS = {
  allow: 'allowed by "PATTERN"',
  deny: 'denied by "PATTERN"',
  unknown: 'no entry of that name',
  no_allow: 'no pattern allows it',
};

function byRoute(text: string): DecidingRule {
  return { check: 'route', text, path: null, file: null, line: null };
}

function allowedText({ auth, endpoint }: Route, action: string | null): string {
  if (auth === 'none' || endpoint?.credential === 'none') return 'requires no credential';
  return action === null ? 'requires only a credential' : 'requires a credential that allows its action';
}

const REFUSALS: Readonly<Partial<Record<Refusal['refusal'], string>>> = {
  unauthenticated: 'requires a credential',
  malformed: 'refuses the request as malformed (400)',
  active_tokens: 'refuses while the user has active tokens',
  service_worker: 'refuses scripts of service workers',
  not_found: 'finds no such record (404)',
  other_customer: "refuses other customers' records",
};

function refusalText({ refusal }: Refusal, { route: { auth, endpoint } }: Match): string {
  if (auth === 'deny') return 'refuses every request (404)';
  if (refusal === 'wrong_credential_kind')
    return `${endpoint?.name ?? 'the endpoint'} does not take this kind of credential`;
  return REFUSALS[refusal] ?? `refuses it (${refusal})`;
}
