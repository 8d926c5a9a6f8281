import { dirname, sep } from 'node:path';
import { isObject } from '../util/json.js';
import type { LoadedConfig } from '../config/load.js';
import type { Config } from '../config/schema/config.js';
import { includes, type Rules } from '../policy/decide.js';

type Side = Pick<LoadedConfig, 'config' | 'file'>;
type Table = Readonly<Record<string, Rules>>;

/** @param allowed keys that may differ, with everything below them */
export function uncomparedKeys(running: Side, candidate: Side, allowed: readonly string[] = []): string[] {
  const [a, b] = [withoutFolder(running), withoutFolder(candidate)] as const;
  const keys = [
    ...differing(uncomparedPart(a), uncomparedPart(b)),
    ...differingRoutes(a, b),
    ...(['roles', 'scopes'] as const).flatMap((table) =>
      widened(a.policy[table], b.policy[table]).map((name) => `policy.${table}.${name}`),
    ),
  ];
  return keys.filter((key) => !allowed.some((each) => key === each || key.startsWith(`${each}.`)));
}

/** Removes the file's folder from paths, which are relative to it: both files may replace each other. */
function withoutFolder({ config, file }: Side): Config {
  const folder = dirname(file) + sep;
  return JSON.parse(JSON.stringify(config), (_key, value: unknown) =>
    typeof value === 'string' && value.startsWith(folder) ? value.slice(folder.length) : value,
  ) as Config;
}

function uncomparedPart(whole: Config): object {
  const { routes: _routes, policy, default_route, ...config } = whole;
  const { action: _action, auth: _auth, ...defaultRoute } = default_route;
  const { roles, scopes, service_limited: _limited, ...others } = policy;
  const [ofRoles, ofScopes] = [roles, scopes].map((table) =>
    Object.fromEntries(
      Object.entries(table as Table)
        .map(([name, { allow: _allow, deny: _deny, ...rest }]) => [name, rest] as const)
        .filter(([, rest]) => Object.keys(rest).length > 0),
    ),
  );
  return { ...config, default_route: defaultRoute, policy: { ...others, roles: ofRoles, scopes: ofScopes } };
}

/** Returns the keys of all values that differ; a list is one value. */
function differing(a: unknown, b: unknown, path: readonly string[] = []): string[] {
  if (!isObject(a) || !isObject(b)) return JSON.stringify(a) === JSON.stringify(b) ? [] : [path.join('.')];
  const keys = new Set([...Object.keys(a), ...Object.keys(b)]);
  return [...keys].flatMap((key) => differing(a[key], b[key], [...path, key]));
}

/**
 * A route that only one side has matters too, unless all routes of both sides treat requests alike:
 * its requests have another route on the other side.
 */
function differingRoutes(a: Config, b: Config): string[] {
  const [before, after] = [treatmentsOf(a), treatmentsOf(b)] as const;
  const all = [...before.effective, ...after.effective];
  if (all.every((each) => each === all[0])) return [];
  const keys = new Set([...before.byRoute.keys(), ...after.byRoute.keys()]);
  return [...keys].flatMap((key) => {
    const [first, second] = [before.byRoute.get(key), after.byRoute.get(key)];
    const path = ['routes', key];
    if (first === null || second === null) return [];
    return first === undefined || second === undefined ? [path.join('.')] : differing(first, second, path);
  });
}

/** Returns what happens to allowed requests: by route, null for none, and with what routes inherit. */
function treatmentsOf({ routes, default_route: others, cors, on_unauthenticated }: Config) {
  const byRoute = new Map<string, object | null>();
  const shared = { upstream: others.upstream, cors, on_unauthenticated, body_on_read: others.body_on_read };
  const effective = [JSON.stringify({ ...shared, cors: others.cors ?? cors, on_unauthenticated: others.on_unauthenticated ?? on_unauthenticated })]; // prettier-ignore
  for (const { host, path, methods, action: _a, service, auth, ...rest } of routes) {
    // The sample names the service in one way only.
    const treatment = service?.includes(':') ? { ...rest, service } : rest;
    const name = host === undefined ? path : host.toLowerCase() + path;
    const key = methods === undefined ? name : `${methods.toSorted().join(' ')} ${name}`;
    byRoute.set(key, auth === 'deny' ? null : treatment);
    if (auth !== 'deny') effective.push(JSON.stringify({ ...shared, ...treatment }));
  }
  return { byRoute, effective };
} // prettier-ignore

/**
 * A credential may rotate a token only if its own permissions include that token's, so a row that
 * includes another one only in the candidate is listed.
 */
function widened(a: Table, b: Table): string[] {
  const isIncluded = (table: Table, wide: string, narrow: string) =>
    table[narrow] === undefined || includes(table[wide] ?? {}, table[narrow]);
  const names = [...new Set([...Object.keys(a), ...Object.keys(b)])];
  const shared = names.filter((name) => Object.hasOwn(a, name) && Object.hasOwn(b, name));
  return shared.filter((wide) =>
    names.some((narrow) => wide !== narrow && !isIncluded(a, wide, narrow) && isIncluded(b, wide, narrow)),
  );
}
