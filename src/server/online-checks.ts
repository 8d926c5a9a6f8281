import { once } from 'node:events';
import { connect, type NetConnectOpts } from 'node:net';
import { createKeySource } from '../accounts/jwt/key-source.js';
import type { ProviderSettings } from '../accounts/oidc/settings.js';
import { addressesOf } from '../config/derived.js';
import type { Config } from '../config/schema/config.js';
import { ConnectionFailed, describeSystemError } from '../util/system-error.js';
import { upstreamUrl } from '../domain/urls.js';
import { withRemedy } from '../upstream/faults.js';
import { hostOf, portOf } from '../util/addresses.js';
import { endpointOf } from '../webhooks/endpoint.js';
import { fetchLimited } from '../net/fetch-limited.js';
import { systemResolve } from '../net/pinned-lookup.js';
import { RefreshedValue } from '../net/refreshed-value.js';
import { printable } from '../util/text.js';

const TIMEOUT_MS = 5_000;

/** The network checks of a configuration besides the store. */
export function onlineChecks({ upstreams, jwt_issuers: issuers, login, webhooks }: Config) {
  return [
    ...Object.entries(upstreams).flatMap(([name, upstream]) =>
      addressesOf(upstream)
        .map(upstreamUrl)
        .map(({ origin, socketPath, url }) => ({
          name: `upstreams.${name} ${origin}`,
          run: async () =>
            connectTo(socketPath === null ? { host: hostOf(url), port: portOf(url) } : { path: socketPath }),
        })),
    ),
    ...issuers.map((issuer) => ({
      name: `jwt_issuers ${issuer.name}`,
      run: async () => needKeys((await createKeySource(issuer, issuer.jwks)()).keys),
    })),
    ...login.oidc.map((provider) => ({
      name: `login.oidc ${provider.name}`,
      run: async () => checkProvider(provider),
    })),
    ...webhooks.map(endpointOf).map(({ id, url, allow_private: allowPrivate }) => ({
      name: `webhooks ${id}`,
      run: async () => {
        const addresses = { resolve: systemResolve, allowPrivate };
        // Not the URL itself: some endpoints act on a GET, too.
        await fetchLimited(new URL('/', url).href, { timeout: TIMEOUT_MS, maxBody: 0, addresses });
      },
    })),
  ];
}

/** @throws Error that says why a provider's configuration and keys cannot be fetched and used */
async function checkProvider(settings: ProviderSettings): Promise<void> {
  const { discoverProvider } = await import('../accounts/oidc/client.js');
  const { jwks_uri: url = '' } = (await discoverProvider(settings)).serverMetadata();
  needKeys((await createKeySource(settings, { url })()).keys);
}

function needKeys(keys: readonly unknown[]): void {
  if (keys.length === 0) throw new Error('no public key is published');
}

/** Sends no request, because an upstream may respond to an unexpected one in any way. */
async function connectTo(address: NetConnectOpts): Promise<void> {
  const socket = connect(address);
  const failed = await once(socket, 'connect', { signal: AbortSignal.timeout(TIMEOUT_MS) }).then(
    () => undefined,
    (error: Error) => error,
  );
  socket.destroy();
  if (failed === undefined) return;
  // The name of the check includes the address.
  throw new Error(
    failed.name === 'AbortError' ? 'no response in time' : withRemedy(describeSystemError(failed), failed),
  );
}

export function reasonOf(error: unknown): string {
  const reasons: string[] = [];
  for (let each = error; each instanceof Error && reasons.length < 4; each = each.cause) {
    const { message } = each;
    if (!reasons.some((known) => known.includes(message))) reasons.push(message);
    // Its message already includes its cause.
    if (each instanceof ConnectionFailed) break;
  }
  return reasons.join(': ').slice(0, 500);
}

const CHECKED = { after: 30_000, retry: 30_000 };

/**
 * Returns the problems of identity providers, by `login.oidc.NAME`. Callers get the latest known result and
 * never wait.
 */
export function watchProviders(): (providers: readonly ProviderSettings[]) => Record<string, string> {
  const checks = new Map<string, RefreshedValue<string>>();
  return (providers) => {
    const warnings: Record<string, string> = {};
    for (const provider of providers) {
      const key = `${provider.issuer} ${provider.client_id}`;
      const check = checks.get(key) ?? new RefreshedValue(async () => faultOf(provider), CHECKED);
      checks.set(key, check);
      const fault = check.latest() ?? '';
      if (fault !== '') warnings[`login.oidc.${provider.name}`] = fault;
    }
    return warnings;
  };
}

async function faultOf(provider: ProviderSettings): Promise<string> {
  return checkProvider(provider).then(
    () => '',
    (error: unknown) => `no usable response: ${printable(reasonOf(error))}`,
  );
}
