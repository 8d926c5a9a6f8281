import { isIP } from 'node:net';
import { isRead, METHODS } from '../domain/methods.js';
import { upstreamUrl } from '../domain/urls.js';
import { allows, type PolicyTables } from '../policy/decide.js';
import { pathKey, type Route } from '../policy/route.js';
import { portOf } from '../util/addresses.js';
import { addressesOf } from './derived.js';
import { type Add, problemsOf, suggestion } from './fault.js';
import { type LoadedConfig, type Rules, withShadow } from './load.js';
import { compilePolicy } from './policy.js';
import { warnOfPatterns } from './policy-checks.js';
import { samplePaths, sampleRequest } from './route-checks.js';
import type { Config } from './schema/config.js';
import type { DirectoryFile } from './schema/directory-file.js';
import { EVERY_ADDRESS } from './schema/listen.js';
import { isLoopback } from './schema/units.js';

/** Returns what `check` warns of, as lines for people. @param directory null without a directory file */
export function warningsOf(loaded: LoadedConfig, directory: DirectoryFile | null): string[] {
  const { file, config, lines, certificate, shadow } = loaded;
  const promoted = withShadow(loaded);
  return [
    ...(certificate?.warnings ?? []).map((warning) => `${file}: warning: ${warning}`),
    ...warningsIn(loaded, (add) => {
      warnOfUpstreams(loaded, add);
      warnOfRoutes(loaded, add);
      warnOfPatterns(config, lines, add);
      warnOfClaims(config, add);
      if (directory !== null) warnOfReferences(config, directory, add);
    }),
    ...(shadow === null || promoted === null
      ? []
      : warningsIn(shadow, (add) => {
          if (shadow.sections.routes !== undefined) warnOfRoutes(promoted, add);
          warnOfPatterns(promoted.config, shadow.lines, add);
        })),
  ];
}

function warningsIn(
  { file, lines }: Pick<LoadedConfig, 'file' | 'lines'>,
  check: (add: Add) => void,
): string[] {
  return problemsOf(check).map(
    ({ path, message }) => `${file}:${lines[path.join('.')]}: warning: ${message}`,
  );
}

/** Warns of Latchkey's own address, and of a public site that gets the Host of clients unless `host` is set. */
function warnOfUpstreams({ config, lines }: Pick<LoadedConfig, 'config' | 'lines'>, add: Add): void {
  const isShort = lines['upstream'] !== undefined;
  for (const [name, upstream] of Object.entries(config.upstreams)) {
    const path = isShort ? ['upstream'] : ['upstreams', name];
    const urls = addressesOf(upstream).flatMap((address) => upstreamUrl(address).url ?? []);
    if (urls.some((url) => isOwnAddress(url, config.listen)))
      add(path, 'this upstream has the address of Latchkey itself (listen); write the address of your API');
    const site = urls.find(isPublicSite);
    if (site === undefined || lines[`upstreams.${name}.host`] !== undefined) continue;
    const shown = isShort ? ` in upstreams: { ${name}: { url: ..., host: upstream } }` : '';
    const message = `this upstream gets the Host of clients, but ${site.host} probably expects its own; write host: upstream${shown} (or host: preserve if it serves the name that clients use)`;
    add(path, message);
  }
}

/** Whether requests to an upstream would reach the public port of this process again. */
function isOwnAddress(url: URL, { host, port }: Config['listen']): boolean {
  if (port === 0 || portOf(url) !== port) return false;
  return isLoopback(url.hostname) ? isLoopback(host) || EVERY_ADDRESS.has(host) : url.hostname === host;
}

/** Whether a URL is that of a site with a certificate of its own, not of a machine nearby. */
function isPublicSite({ protocol, hostname }: URL): boolean {
  return (
    protocol === 'https:' && hostname.includes('.') && isIP(hostname) === 0 && !PRIVATE_NAME.test(hostname)
  );
}

const PRIVATE_NAME = /\.(?:local|localhost|internal|svc|lan|home\.arpa|consul)\.?$/;

/** Warns of `/x/*` where `/x` has a weaker rule: Hono and Express's `app.use` serve both alike. */
function warnOfRoutes({ config, lines, written }: Rules, add: Add): void {
  const { sites } = compilePolicy(config, lines);
  for (const [i, route] of config.routes.entries()) {
    const at = `routes.${i}`;
    // Built-in routes have no line.
    if (lines[at] === undefined || !route.path.endsWith('/*') || route.path === '/*') continue;
    const base = route.path.slice(0, -2);
    const [baseSample = '', below = ''] = [...samplePaths(base, config), samplePaths(route.path, config)[1]];
    for (const method of route.methods ?? METHODS) {
      const find = (sample: string) => sites.find(sampleRequest(route, method, sample));
      const [own, other] = [find(below), find(baseSample)];
      if (typeof own === 'string' || typeof other === 'string' || own.route.position?.path !== at) continue;
      if (pathKey(other.route) === pathKey({ ...route, path: base })) continue;
      if (!isWeaker(other.route, own.route, method, config.policy)) continue;
      const shown = (written[`${at}.path`] ?? route.path).replace(/\/\*$/, '');
      const message =
        `does not match ${shown} itself, for which ${other.route.position?.path} requires less with ${method}, ` +
        `and many upstreams serve both with one handler; add a route for ${shown} too`;
      add(['routes', i], message);
      break;
    }
  }
}

/** Whether some caller passes the rule of a route but not that of another one. */
function isWeaker(route: Route, than: Route, method: string, { roles, scopes }: PolicyTables): boolean {
  // The upstream gets no request for a built-in endpoint.
  if (route.endpoint !== null || than.auth === 'none') return false;
  if (route.auth !== than.auth) return route.auth === 'none' || than.auth === 'deny';
  if (route.auth === 'deny') return false;
  if (than.service !== null && route.service === null) return true;
  const actionOf = ({ readAction, writeAction }: Route) => (isRead(method) ? readAction : writeAction) ?? '';
  const [action, wanted] = [actionOf(route), actionOf(than)];
  return [...Object.values(roles), ...Object.values(scopes)].some(
    (rules) => allows(rules, action) && !allows(rules, wanted),
  );
}

/** Warns of dots: many mean a path by them, but a nested claim is written as a JSON pointer. */
function warnOfClaims({ login, jwt_issuers: issuers, identity }: Config, add: Add): void {
  const warn = (path: readonly (string | number)[], claim: string) => {
    // The names that providers make up are mostly URLs.
    if (!/^[^/].*\./.test(claim) || URL.canParse(claim)) return;
    const pointer = `/${claim.replaceAll('.', '/')}`;
    add(path, `${claim} is the name of one claim, dots included; a nested claim is written ${pointer}`);
  };
  login.oidc.forEach(({ login_claim: claim, roles }, i) => {
    warn(['login', 'oidc', i, 'login_claim'], claim);
    warn(['login', 'oidc', i, 'roles', 'claim'], roles.claim);
  });
  for (const [header, claim] of Object.entries(identity.claims)) warn(['identity', 'claims', header], claim);
  issuers.forEach(({ subjects }, i) =>
    subjects.forEach(({ claims }, j) => {
      for (const name of Object.keys(claims)) warn(['jwt_issuers', i, 'subjects', j, 'claims', name], name);
    }),
  );
}

/** Warns of customers and services that the directory file lacks. */
function warnOfReferences(
  { login, jwt_issuers: issuers }: Config,
  { customers, services }: DirectoryFile,
  add: Add,
): void {
  const warn = (path: readonly (string | number)[], what: string, id: string, known: readonly string[]) => {
    if (!known.includes(id)) add(path, `${what} in the directory file has this id${suggestion(id, known)}`);
  };
  const ids = customers.map(({ id }) => id);
  login.oidc.forEach(({ customer_id: id }, i) =>
    warn(['login', 'oidc', i, 'customer_id'], 'no customer', id, ids),
  );
  issuers.forEach(({ subjects }, i) =>
    subjects.forEach(({ customer_id: customer, services: limit = [] }, j) => {
      const at = ['jwt_issuers', i, 'subjects', j];
      warn([...at, 'customer_id'], 'no customer', customer, ids);
      const own = services.filter((each) => each.customer_id === customer).map(({ id }) => id);
      // A customer without listed services may have any, as for tokens.
      if (own.length > 0)
        limit.forEach((id, k) => warn([...at, 'services', k], 'no service of this customer', id, own));
    }),
  );
}
