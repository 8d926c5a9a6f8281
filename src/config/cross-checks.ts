import { statSync } from 'node:fs';
import { dirname } from 'node:path';
import { type Add, problemsOf, type Problem } from './fault.js';
import { builtInRoutes, collidesWithEndpoint } from '../endpoints/endpoints.js';
import { endpointSettings } from './derived.js';
import { checkCors, checkIdentity, isTaken } from './header-checks.js';
import { checkJwtIssuers, checkOidc } from './issuer-checks.js';
import { NO_FILE, tlsFileFaults } from './certificate.js';
import { checkPolicy } from './policy-checks.js';
import { checkRoutes } from './route-checks.js';
import type { Config } from './schema/config.js';
import { UI_PATH_FAULT } from './schema/interface.js';
import { AUTHORIZATION } from '../http/authorization.js';
import { foldName } from '../http/protected-fields.js';
import { decisionAddresses, EVERY_ADDRESS } from './schema/listen.js';
import type { Source } from './source.js';
import { checkUpstreams } from './upstream-checks.js';
import { endpointOf } from '../webhooks/endpoint.js';
import { refuseLiteral } from '../net/pinned-lookup.js';

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

function checkFiles({ directory, audit, store }: Config, add: Add): void {
  if (directory.file !== null) {
    const found = kindOf(directory.file);
    if (found === 'nothing') add(['directory', 'file'], NO_FILE);
    if (found === 'folder') add(['directory', 'file'], 'expected a file, found a folder');
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
  if (store.tls !== null) {
    for (const [name, message] of tlsFileFaults(store.tls)) add(['store', 'tls', name], message);
  }
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

/**
 * Returns why the address in a URL must not be connected to. Host names are checked when they are resolved.
 */
function refusalOf(url: string, allowPrivate: boolean): string | undefined {
  try {
    refuseLiteral(new URL(url).hostname, allowPrivate);
    return undefined;
  } catch (error) {
    return (error as Error).message;
  }
}
