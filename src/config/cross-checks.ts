import { statSync } from 'node:fs';
import { dirname } from 'node:path';
import { type Add, problemsOf, type Problem, suggestion } from './fault.js';
import { builtInRoutes, collidesWithEndpoint } from '../endpoints/endpoints.js';
import { endpointSettings, addressesOf } from './derived.js';
import { checkCors, checkIdentity, isTaken } from './header-checks.js';
import { checkJwtIssuers, checkOidc } from './issuer-checks.js';
import { NO_FILE, checkTlsFiles } from './certificate.js';
import { checkPolicy } from './policy-checks.js';
import { checkRoutes } from './route-checks.js';
import type { Config } from './schema/config.js';
import { UI_PATH_FAULT } from './schema/interface.js';
import { AUTHORIZATION } from '../http/authorization.js';
import { foldName } from '../http/protected-fields.js';
import { decisionAddresses, EVERY_ADDRESS } from './schema/listen.js';
import type { Source } from './source.js';
import { endpointOf } from '../webhooks/endpoint.js';
import { refuseLiteral } from '../net/pinned-lookup.js';
import { upstreamUrl } from '../domain/urls.js';
import type { Path } from './yaml.js';

/** Checks what no single value shows: references between settings, contradictions, and files. */
export function crossCheck(config: Config, file: Pick<Source, 'lines' | 'written'>): Problem[] {
  return problemsOf((add) => {
    if (config.sessions.idle_timeout > config.sessions.absolute_timeout)
      add(['sessions', 'idle_timeout'], 'is longer than sessions.absolute_timeout');
    if (config.tokens.rotation.overlap > config.tokens.rotation.max_overlap)
      add(['tokens', 'rotation', 'overlap'], 'is longer than tokens.rotation.max_overlap');
    checkFiles(config, add);
    checkListeners(config, add);
    checkUpstreams(config, add);
    checkCors(config, file, add);
    if (checkRoutes(config, file, add)) checkPolicy(config, file, add);
    if (collidesWithEndpoint(config.interface.ui.path)) add(['interface', 'ui', 'path'], UI_PATH_FAULT);
    checkReadyPath(config, add);
    checkKeyHeaders(config, add);
    checkIdentity(config, add);
    checkJwtIssuers(config, add);
    checkOidc(config, add);
    checkWebhooks(config, add);
  });
}

function checkReadyPath(config: Config, add: Add): void {
  const others = builtInRoutes({ ...endpointSettings(config), readyPath: null });
  const path = config.listen.ready_path;
  if (others.some((other) => other.path === path && other.methods?.includes('GET')))
    add(['listen', 'ready_path'], 'is already a built-in endpoint; choose another path');
}

function checkFiles({ directory, audit, store, policy_shadow: shadow }: Config, add: Add): void {
  for (const [path, file] of [
    [['directory', 'file'], directory.file],
    [['policy_shadow'], shadow],
  ] as const) {
    const found = file === null ? 'file' : kindOf(file);
    if (found === 'nothing') add(path, NO_FILE);
    if (found === 'folder') add(path, 'expected a file, found a folder');
  }
  if (audit.to !== null && audit.to !== 'stdout') {
    const folder = kindOf(dirname(audit.to));
    if (folder !== 'folder') add(['audit', 'to'], 'the folder of this file does not exist');
    else if (kindOf(audit.to) === 'folder') add(['audit', 'to'], 'expected a file, found a folder');
  }
  if (store.type === 'lmdb') {
    if (kindOf(store.path) === 'file') add(['store', 'path'], 'expected a folder, found a file');
    return;
  }
  if (store.type === 'redis' && store.revocations !== null && kindOf(store.revocations) === 'file')
    add(['store', 'revocations'], 'expected a folder, found a file');
  checkTlsFiles(store.tls, (name, message) => add(['store', 'tls', name], message));
}

function kindOf(path: string): 'file' | 'folder' | 'nothing' {
  try {
    return statSync(path).isDirectory() ? 'folder' : 'file';
  } catch {
    return 'nothing';
  }
}

/** A header that means something else must not be read as a token, nor withheld. */
function checkKeyHeaders(config: Config, add: Add): void {
  const { key_headers: names, ...others } = config.interface;
  names.forEach((name, i) => {
    const rest = { interface: { ...others, key_headers: names.slice(0, i) }, jwt_issuers: [] };
    if (foldName(name) === AUTHORIZATION || isTaken(name, rest))
      add(
        ['interface', 'key_headers', i],
        'this header already has a different meaning; choose another name',
      );
  });
}

function checkListeners({ listen, admin, decision }: Config, add: Add): void {
  const { http, grpc } = decisionAddresses(decision);
  const listeners = Object.entries({ listen, admin, decision: http, 'decision.grpc': grpc }).flatMap(
    ([name, listener]) => (listener === null || listener.port === 0 ? [] : [{ name, ...listener }]),
  );
  listeners.forEach((one, i) => {
    const other = listeners
      .slice(0, i)
      .find((each) => each.port === one.port && overlap(each.host, one.host));
    if (other !== undefined)
      add([...one.name.split('.'), 'port'], `is already the port of ${other.name}; choose another`);
  });
}

function overlap(a: string, b: string): boolean {
  return a === b || EVERY_ADDRESS.has(a) || EVERY_ADDRESS.has(b);
}

function checkWebhooks({ webhooks, tokens }: Config, add: Add): void {
  const seen = new Set<string>();
  webhooks.forEach((webhook, i) => {
    const fault = (key: string, message: string) => add(['webhooks', i, key], message);
    const { protocol } = new URL(webhook.url);
    if (protocol !== 'https:' && !webhook.allow_private)
      fault('url', 'http:// requires allow_private: true; write https://');
    const refused = refusalOf(webhook.url, webhook.allow_private);
    if (refused !== undefined) fault('url', refused);
    const { id } = endpointOf(webhook);
    if (seen.has(id)) fault('url', 'another endpoint has the same URL; remove one of them');
    seen.add(id);
    if (tokens.warn_before === null && webhook.events.every((event) => event === 'token.expiring'))
      fault('events', 'token.expiring requires tokens.warn_before; set it');
  });
}

/** Why an address must not be connected to. Host names are checked when they are resolved. */
function refusalOf(url: string, allowPrivate: boolean): string | undefined {
  try {
    refuseLiteral(new URL(url).hostname, allowPrivate);
    return undefined;
  } catch (error) {
    return (error as Error).message;
  }
}

function checkUpstreams(config: Config, add: Add): void {
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
  checkTlsFiles(tls, (key, message) => fault(['tls', key], message));
}
