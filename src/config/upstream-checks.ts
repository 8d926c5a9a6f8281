import { isIP } from 'node:net';
import type { Lines } from '../policy/rules.js';
import { type Add, type ConfigWarning, suggestion } from './fault.js';
import { addressesOf } from './derived.js';
import { upstreamUrl } from '../domain/upstream-url.js';
import { portOf } from '../util/addresses.js';
import type { Path } from './yaml.js';
import type { Config } from './schema/config.js';
import { EVERY_ADDRESS } from './schema/listen.js';
import { isLoopback } from './schema/units.js';
import { tlsFileFaults } from './certificate.js';

export function checkUpstreams(config: Config, add: Add): void {
  const names = Object.keys(config.upstreams);
  if (names.length === 0) {
    add([], 'no upstream is set; the smallest configuration is "upstream: http://127.0.0.1:3000"');
    return;
  }
  for (const name of names) checkUpstream(config, name, add);
  const check = (path: Path, name: string | null | undefined) => {
    if (name == null || names.includes(name)) return;
    add(path, `no upstream has this name${suggestion(name, names)}`);
  };
  if (config.default_route.upstream === null && names.length > 1) {
    const several = `there are several upstreams; write one of ${names.join(', ')}`;
    if (config.default_route.auth !== 'deny') add(['default_route', 'upstream'], several);
    else
      config.routes.forEach(({ auth, upstream }, i) => {
        if (auth !== 'deny' && upstream === undefined) add(['routes', i, 'upstream'], several);
      });
  }
  check(['default_route', 'upstream'], config.default_route.upstream);
  config.routes.forEach((route, i) => check(['routes', i, 'upstream'], route.upstream));
}

const H2_NEEDS_TLS =
  'h2 is HTTP/2 over TLS; write https:// addresses, or protocol: h2c for HTTP/2 without TLS';
const H2C_HAS_NO_TLS = 'h2c is HTTP/2 without TLS; write http:// or unix:// addresses, or protocol: h2';

function checkUpstream(config: Config, name: string, add: Add): void {
  const upstream = config.upstreams[name] as Config['upstreams'][string];
  const { tls } = upstream;
  const fault = (below: Path, message: string) => add(['upstreams', name, ...below], message);
  const addresses = addressesOf(upstream).map(upstreamUrl);
  const origins = addresses.map(({ origin }) => origin);
  origins.forEach((origin, i) => {
    const first = origins.indexOf(origin);
    if (first < i) fault(['urls', i], `urls.${first} already has this address`);
  });
  const isTls = { http1: null, h2: true, h2c: false }[upstream.protocol];
  if (isTls !== null && addresses.some(({ url }) => (url?.protocol === 'https:') !== isTls))
    fault(['protocol'], upstream.protocol === 'h2' ? H2_NEEDS_TLS : H2C_HAS_NO_TLS);
  const { assertion } = config.identity;
  if (assertion.enabled && assertion.bind === 'request') {
    const other = addresses.findIndex(({ prefix }) => prefix !== addresses[0]?.prefix);
    if (other >= 0)
      fault(
        ['urls', other],
        'its path differs from that of urls.0; assertions that are bound to a request need the same path',
      );
  }
  if (tls === null) return;
  if (addresses.some(({ socketPath }) => socketPath !== null)) {
    fault(['tls'], 'a unix:// address has no TLS; remove tls, or list the socket as a separate upstream');
  } else if (!addresses.some(({ url }) => url?.protocol === 'https:')) {
    fault(['tls'], 'none of the addresses is an https:// URL; write https:// or remove tls');
  }
  for (const [key, message] of tlsFileFaults(tls)) fault(['tls', key], message);
}

/** Warns of upstreams with the address of the public port, and of sites that serve a name of their own. */
export function upstreamWarnings(config: Config, lines: Lines): ConfigWarning[] {
  return Object.entries(config.upstreams).flatMap(([name, upstream]) => {
    const line = lines[`upstreams.${name}`] ?? lines['upstream'] ?? null;
    const urls = addressesOf(upstream).flatMap((address) => upstreamUrl(address).url ?? []);
    const site = lines[`upstreams.${name}.host`] === undefined ? urls.find(isPublicSite) : undefined;
    const messages = urls.some((url) => isOwnAddress(url, config.listen))
      ? ['this upstream has the address of Latchkey itself (listen); write the address of your API']
      : [];
    if (site !== undefined) {
      const shown =
        lines['upstream'] === undefined ? '' : ` in upstreams: { ${name}: { url: ..., host: upstream } }`;
      messages.push(
        `this upstream gets the Host of clients, but ${site.host} probably expects its own; write host: upstream${shown} (or host: preserve if it serves the name that clients use)`,
      );
    }
    return messages.map((message) => ({ line, message }));
  });
}

/** Whether a URL is that of a site with a certificate of its own, not of a machine nearby. */
function isPublicSite({ protocol, hostname }: URL): boolean {
  return (
    protocol === 'https:' && hostname.includes('.') && isIP(hostname) === 0 && !PRIVATE_NAME.test(hostname)
  );
}

const PRIVATE_NAME = /\.(?:local|localhost|internal|svc|lan|home\.arpa|consul)\.?$/;

/** Whether requests to an upstream would reach the public port of this process again. */
function isOwnAddress(url: URL, { host, port }: Config['listen']): boolean {
  if (port === 0) return false;
  const { hostname } = url;
  if (portOf(url) !== port) return false;
  return isLoopback(hostname) ? isLoopback(host) || EVERY_ADDRESS.has(host) : hostname === host;
}
