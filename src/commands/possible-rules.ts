import type { LoadedConfig } from '../config/load.js';
import { covers, type Rules } from '../policy/patterns.js';
import { positionOf } from '../policy/rules.js';
import {
  type Change,
  change,
  type Decided,
  type RuleTableName,
  type Situation,
  tokenOf,
  userOf,
  without,
} from './situation.js';
import { withRoute, withRow } from './situation.js';

/** A row of the policy that applies to a caller. */
interface Row {
  readonly table: RuleTableName;
  readonly name: string;
  readonly rules: Rules;
}

function rowsOf({ loaded, as }: Decided): Row[] {
  const { roles, scopes }: { roles: Record<string, Rules>; scopes: Record<string, Rules> } =
    loaded.config.policy;
  const user = userOf(as);
  const role = user === null || roles[user.role] === undefined ? [] : [user.role];
  const held = (tokenOf(as)?.scopes ?? []).filter((scope) => scopes[scope] !== undefined);
  return [
    ...held.map((name): Row => ({ table: 'scopes', name, rules: scopes[name] ?? {} })),
    ...role.map((name): Row => ({ table: 'roles', name, rules: roles[name] ?? {} })),
  ];
}

/** Returns one removal for each rule of a row that covers the action. */
function deletions(
  { loaded, explanation }: Decided,
  { table, name, rules }: Row,
  effect: 'allow' | 'deny',
): Change[] {
  const { action } = explanation;
  return (rules[effect] ?? []).flatMap((pattern, i) => {
    if (action === null || !covers(pattern, action)) return [];
    const position = positionOf(['policy', table, name, effect, i], loaded.lines);
    const apply = (s: Situation) =>
      withRow(s, table, name, (row) => ({ ...row, [effect]: removed(row[effect], pattern) }));
    return [
      change('rule', `without the rule ${effect} "${pattern}" of the ${nameOf(table)} ${name}`, null, apply, position),
    ];
  });
} // prettier-ignore

/** Removes a pattern by value, so that two removals from one list do not shift each other. */
function removed(patterns: readonly string[] | undefined, pattern: string): string[] {
  return without(patterns, patterns?.indexOf(pattern) ?? -1);
}

function nameOf(table: RuleTableName): string {
  return table === 'roles' ? 'role' : 'scope';
}

/** Returns rule removals and additions that could allow a refused request. */
export function rulesToAllow(decided: Decided): Change[] {
  const { loaded, explanation, as } = decided;
  const { action, verdict } = explanation;
  if (action === null) return [];
  const rows = rowsOf(decided).flatMap((row) => [
    ...deletions(decided, row, 'deny'),
    change(
      'rule',
      `with the rule allow "${action}" in the ${nameOf(row.table)} ${row.name}`,
      null,
      (s) =>
        withRow(s, row.table, row.name, (rules) => ({ ...rules, allow: [...(rules.allow ?? []), action] })),
      positionOf(['policy', row.table, row.name], loaded.lines),
    ),
  ]);
  const limited = (tokenOf(as)?.services.length ?? 0) > 0 ? serviceLimited(loaded, action) : [];
  return [
    ...rows,
    ...limited,
    ...(verdict.outcome === 'wrong_credential_kind' ? tokenEndpoints(loaded) : []),
  ];
}

function serviceLimited({ config, lines }: LoadedConfig, action: string): Change[] {
  return config.policy.service_limited.deny.flatMap((pattern, i) => {
    if (!covers(pattern, action)) return [];
    const apply = (s: Situation): Situation => {
      const deny = removed(s.config.policy.service_limited.deny, pattern);
      return {
        ...s,
        config: { ...s.config, policy: { ...s.config.policy, service_limited: { deny } } },
      };
    };
    const position = positionOf(['policy', 'service_limited', 'deny', i], lines);
    return [
      change(
        'rule',
        `without the rule deny "${pattern}" for tokens limited to services`,
        null,
        apply,
        position,
      ),
    ];
  });
}

function takingTokens({ config, as }: Situation): Situation {
  const changed = { ...config.interface, token_endpoints: 'session_or_token' } as const;
  return { as, config: { ...config, interface: changed } };
}

function tokenEndpoints({ lines }: LoadedConfig): Change[] {
  const position = positionOf(['interface', 'token_endpoints'], lines);
  return [
    change(
      'route',
      'the endpoint also accepts tokens (token_endpoints: session_or_token)',
      null,
      takingTokens,
      position,
    ),
  ];
}

/**
 * Returns changes to the route of a request that could reverse the decision.
 *
 * @param requires whether `auth: required` is one of them: the route needs no credential, or
 *   refuses every request
 */
export function routeChanges({ explanation }: Decided, requires: boolean): Change[] {
  const { route, verdict } = explanation;
  const position = route?.place ?? null;
  if (route === null || position === null) return [];
  const [, at] = /^routes\.(\d+)$/.exec(position.path) ?? [];
  const index = at === undefined ? null : Number(at);
  const name = route.path === '*' ? 'default_route' : `the route ${route.path}`;
  const auth = (value: 'required' | 'none' | 'deny') =>
    change(
      'route',
      `${name} has auth: ${value}`,
      null,
      (s) => withRoute(s, index, { auth: value }),
      position,
    );
  const withoutRoute =
    index === null
      ? []
      : [
          change(
            'route',
            `${name} does not exist`,
            null,
            ({ config, as }: Situation) => ({
              as,
              config: { ...config, routes: without(config.routes, index) },
            }),
            position,
          ),
        ];
  const guard =
    verdict.outcome === 'active_tokens'
      ? [
          change(
            'route',
            `${name} has no refuse_if_active_tokens`,
            null,
            (s) => withRoute(s, index, { refuse_if_active_tokens: undefined }),
            position,
          ),
        ]
      : [];
  const others = (['required', verdict.allowed ? 'deny' : 'none'] as const).filter((value) =>
    value === 'required' ? requires : true,
  );
  return [...guard, ...others.map(auth), ...withoutRoute];
}

/** Returns rule removals that could refuse an allowed request. */
export function rulesToRefuse(decided: Decided): Change[] {
  return rowsOf(decided).flatMap((row) => deletions(decided, row, 'allow'));
}
