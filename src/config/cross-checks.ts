import type { Fault } from './fault.js';
import { suggestion } from './nearest.js';
import type { Config } from './schema.js';
import type { Path, Source } from './source.js';
import { UNAVAILABLE } from './unavailable.js';

/** Paths that the own endpoints are at; a route there would never be reached. */
const OWN_PATHS = /^\/(login|logout|tokens(\/.*)?|customer\/:[^/]+\/tokens)$/;

/** What no single value shows: names that refer to others, values that contradict each other. */
export function crossCheck(config: Config, source: Source): Fault[] {
  const faults: Fault[] = [];
  const add = (path: Path, message: string) => faults.push(source.fault(path, message));
  for (const { path, isSet } of UNAVAILABLE) {
    if (isSet(config)) add(path, notAvailable(path.join('.')));
  }
  if (config.sessions.idle_timeout > config.sessions.absolute_timeout) {
    add(['sessions', 'idle_timeout'], 'sessions.idle_timeout: is longer than sessions.absolute_timeout');
  }
  checkUpstreams(config, add);
  checkRoutes(config, add);
  checkIdentity(config, add);
  return faults;
}

function notAvailable(setting: string): string {
  return `${setting}: this setting is not available in this version`;
}

type Add = (path: Path, message: string) => void;

function checkUpstreams(config: Config, add: Add): void {
  const names = Object.keys(config.upstreams);
  for (const [name, { health_check: health }] of Object.entries(config.upstreams)) {
    if (health != null)
      add(['upstreams', name, 'health_check'], notAvailable(`upstreams.${name}.health_check`));
  }
  if (names.length === 0) {
    add([], 'no upstream is set; the smallest configuration is "upstream: http://127.0.0.1:3000"');
    return;
  }
  const check = (path: Path, name: string | null | undefined) => {
    if (name == null || names.includes(name)) return;
    add(path, `${path.map(String).join('.')}: no upstream is named "${name}"${suggestion(name, names)}`);
  };
  if (config.default_route.upstream === null && names.length > 1) {
    add(['default_route'], `default_route.upstream: say which of ${names.join(', ')} it is`);
  }
  check(['default_route', 'upstream'], config.default_route.upstream);
  config.routes.forEach((route, i) => check(['routes', i, 'upstream'], route.upstream));
}

function checkRoutes(config: Config, add: Add): void {
  const seen = new Map<string, number>();
  config.routes.forEach((route, i) => {
    const at = (key: string): Path => ['routes', i, key];
    const segments = route.path.slice(1).split('/');
    const parameters = segments.filter((s) => s.startsWith(':')).map((s) => s.slice(1));
    const badSegment = segments.find(
      (s) => (s.includes('*') && s !== '*') || s === ':' || s.slice(1).includes(':'),
    );
    if (badSegment !== undefined) {
      add(at('path'), `routes.${i}.path: ":name" and "*" must be whole segments, found "${badSegment}"`);
    }
    if (OWN_PATHS.test(route.path))
      add(at('path'), `routes.${i}.path: ${route.path} is an endpoint of Latchkey's own`);
    const auth = route.auth ?? 'required';
    if (auth === 'required' && route.action === undefined) {
      add(['routes', i], `routes.${i}: expected an action, or auth: none or auth: deny`);
    }
    const needsParameter = (key: 'service' | 'refuse_if_active_tokens', name: string | undefined) => {
      if (name === undefined || parameters.includes(name)) return;
      if (key === 'service' && /^(header|query):./.test(name)) return;
      add(at(key), `routes.${i}.${key}: the path has no parameter ":${name}"${suggestion(name, parameters)}`);
    };
    needsParameter('service', route.service);
    needsParameter('refuse_if_active_tokens', route.refuse_if_active_tokens);
    // Parameters of other names at the same places are the same path.
    const shape = segments.map((s) => (s.startsWith(':') ? ':' : s)).join('/');
    for (const method of route.methods ?? ['every method']) {
      const key = `${method} ${shape}`;
      const first = seen.get(key);
      if (first !== undefined)
        add(at('path'), `routes.${i}.path: ${route.path} is given for ${method} in routes.${first} already`);
      else seen.set(key, i);
    }
  });
}

function checkIdentity(config: Config, add: Add): void {
  const seen = new Map<string, string>();
  for (const [key, name] of Object.entries(config.identity.headers)) {
    if (name === null) continue;
    const other = seen.get(name.toLowerCase());
    if (other !== undefined)
      add(['identity', 'headers', key], `identity.headers.${key}: ${name} is the name of ${other} already`);
    seen.set(name.toLowerCase(), key);
  }
}
