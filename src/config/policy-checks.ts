import { isRead, METHODS } from '../domain/methods.js';
import { covers, type Lines, type Policy } from '../policy/decide.js';
import type { Route } from '../policy/route.js';
import { type Add, isSlip, nearest } from './fault.js';
import { compilePolicy } from './policy.js';
import type { Config } from './schema/config.js';
import type { Path } from './yaml.js';
import type { Source } from './source.js';

/** Reports actions that nobody may perform, and patterns that miss an action by a letter or two. */
export function checkPolicy(
  config: Config,
  { lines, written }: Pick<Source, 'lines' | 'written'>,
  add: Add,
): void {
  const hidden = isHidden(written);
  const { policy, sites } = compilePolicy(config, {});
  const { routes } = sites;
  const known = new Set(actionsIn(config, routes));
  config.routes.forEach((_route, i) => {
    // Built-in routes may have actions that nobody may perform any longer.
    if (!Object.hasOwn(lines, `routes.${i}`)) return;
    const compiled = routes.find(({ position }) => position?.path === `routes.${i}`);
    if (compiled === undefined || compiled.auth !== 'required') return;
    checkAllowed(policy, actionsOf(compiled), ['routes', i, 'action'], config, hidden, add);
  });
  if (config.default_route.auth === undefined || config.default_route.auth === 'required') {
    checkAllowed(policy, defaultActions(config), ['default_route', 'action'], config, hidden, add);
  }
  for (const [pattern, path] of patternsOf(config, lines)) {
    const meant = nearestPattern(pattern, [...known]);
    if (meant === undefined) continue;
    const message = hidden
      ? 'this pattern covers no action of any route'
      : `"${pattern}" covers no action of any route (did you mean "${meant}"?)`;
    add(path, message);
  }
}

function actionsIn(config: Config, routes: readonly Route[]): string[] {
  return [...routes.flatMap(actionsOf), ...defaultActions(config)];
}

function defaultActions({ default_route: { action } }: Config): string[] {
  return action.includes(':') ? [action] : [`${action}:read`, `${action}:write`];
}

function actionsOf({ readAction, writeAction, methods }: Route): string[] {
  if (readAction === null || writeAction === null) return [];
  const accepted = methods ?? METHODS;
  return [...new Set(accepted.map((method) => (isRead(method) ? readAction : writeAction)))];
}

function checkAllowed(
  policy: Policy,
  actions: readonly string[],
  at: Path,
  config: Config,
  hidden: boolean,
  add: Add,
): void {
  const missing = (kind: string, some: (action: string) => boolean) => {
    // A resource that can only be read, or only be written, is not a mistake.
    const [action] = actions;
    if (action === undefined || actions.some(some)) return;
    const patterns = Object.values(kind === 'role' ? config.policy.roles : config.policy.scopes);
    const named = patterns.flatMap(({ allow }) => allow).filter((pattern) => !pattern.includes('*'));
    const meant = nearest(action, named);
    const where = kind === 'role' ? 'policy.roles' : 'policy.scopes';
    add(
      at,
      `no ${kind} allows ${hidden ? 'this action' : `"${action}"`}${meant === undefined || hidden ? `; allow it under ${where}, or use auth: deny` : ` (did you mean "${meant}"?)`}`,
    );
  };
  missing('role', (action) => policy.someRoleAllows(action));
  missing('scope', (action) => policy.someScopeAllows(action));
}

/** Warns of patterns that cover no action; several configurations may share the tables. */
export function warnOfPatterns(config: Config, lines: Lines, add: Add): void {
  const { sites } = compilePolicy(config, {});
  const actions = actionsIn(config, sites.routes);
  for (const [pattern, path] of patternsOf(config, lines))
    if (!actions.some((action) => covers(pattern, action)))
      add(path, 'covers no action of any route, so it has no effect');
}

/** Whether a rule contains an expanded value: these are not shown, so nothing is suggested either. */
function isHidden(written: Source['written']): boolean {
  return Object.keys(written).some((at) => /^(policy|routes|default_route)\b/.test(at));
}

/** Returns the patterns written in the file; built-in ones may name actions that the routes lack. */
function patternsOf({ policy }: Config, lines: Lines): (readonly [pattern: string, at: Path])[] {
  const { roles, scopes, service_limited: limited } = policy;
  const lists: [readonly string[], Path][] = [[limited.deny, ['policy', 'service_limited', 'deny']]];
  for (const [table, rows] of Object.entries({ roles, scopes }))
    for (const [name, { allow, deny }] of Object.entries(rows))
      lists.push([allow, ['policy', table, name, 'allow']], [deny, ['policy', table, name, 'deny']]);
  return lists
    .flatMap(([patterns, at]) => patterns.map((pattern, i) => [pattern, [...at, i]] as const))
    .filter(([, at]) => Object.hasOwn(lines, at.join('.')));
}

/** A pattern that resembles no action is left alone: it may be meant for another configuration. */
function nearestPattern(pattern: string, actions: readonly string[]): string | undefined {
  const [resource = '', verb = ''] = pattern.split(':');
  if (pattern === '*') return undefined;
  const resources = actions.map((action) => action.slice(0, action.indexOf(':')));
  if (resource !== '*' && !resources.includes(resource)) {
    const meant = resources.find((known) => isSlip(resource, known));
    return meant === undefined ? undefined : `${meant}:${verb}`;
  }
  const verbs = actions
    .filter((action) => resource === '*' || action.startsWith(`${resource}:`))
    .map((action) => action.slice(action.indexOf(':') + 1));
  if (verb === '*' || verbs.includes(verb)) return undefined;
  const meant = verbs.find((known) => isSlip(verb, known));
  return meant === undefined ? undefined : `${resource}:${meant}`;
}
