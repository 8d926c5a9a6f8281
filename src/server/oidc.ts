import { IdTokens } from '../accounts/oidc/id-tokens.js';
import { createLogThrottle } from '../util/time.js';
import { LoginStates } from '../accounts/oidc/login-states.js';
import { LoginLimits } from '../accounts/oidc/login-limits.js';
import { LogoutTokens } from '../accounts/oidc/logout-tokens.js';
import { type OidcEvents, ProviderLogins } from '../accounts/oidc/provider-logins.js';
import { PasswordHolders } from '../accounts/password-holders.js';
import type { Config } from '../config/schema/config.js';
import type { EndpointServices } from '../endpoints/services.js';
import type { Log } from '../observe/log.js';
import { metrics } from '../observe/metrics.js';
import { printable } from '../util/text.js';
import { reasonOf } from './online-checks.js';
import type { OpenedStore } from './stores/open-store.js';

export function openOidc(
  { login, identity, interface: { ui }, directory, tokens }: Config,
  { store, sealer }: Pick<OpenedStore, 'store' | 'sealer'>,
  log: Log,
): EndpointServices['oidc'] {
  const { oidc: providers, public_url: origin } = login;
  if (providers.length === 0 || origin === null) return null;
  const pageUrl = `${origin}${ui.path}`;
  const holders = new PasswordHolders(store.directory);
  const states = new LoginStates(sealer, store.loginThrottle);
  return {
    logins: new ProviderLogins(
      providers,
      pageUrl,
      Object.values(identity.claims),
      states,
      store.directory,
      new LogoutTokens(store.loginThrottle),
      new LoginLimits(store.loginThrottle, login),
      new IdTokens(sealer),
      tokens.owner_login_within,
      createOidcEvents(log),
    ),
    pageUrl,
    hasPasswords: async () => directory.http !== null || holders.any(),
  };
}

/** Counts provider logins, and logs failures that the person cannot fix. */
function createOidcEvents(log: Log): OidcEvents {
  const throttle = createLogThrottle(60_000);
  const failing = new Set<string>();
  return {
    discovered: (provider, error) => {
      metrics.providerDiscoveries.inc({ provider, outcome: error === undefined ? 'succeeded' : 'failed' });
      if (error === undefined) {
        if (failing.delete(provider)) log.info({ provider }, 'identity provider reachable again');
        return;
      }
      failing.add(provider);
      const reason = printable(reasonOf(error));
      const suppressed = throttle(`${provider} ${reason}`);
      if (suppressed !== undefined)
        log.warn({ provider, reason, suppressed }, 'identity provider unreachable; logins there fail');
    },
    loggedIn: (provider, outcome, error) => {
      metrics.providerLogins.inc({ provider, outcome });
      if (error === undefined || error.failure === 'not_begun') return;
      const reason = printable(reasonOf(error));
      const suppressed = throttle(`${provider} ${outcome} ${reason}`);
      if (suppressed !== undefined)
        log.warn({ provider, outcome, reason, suppressed }, 'identity provider login failed');
    },
    loggedOut: (provider, refused) => {
      metrics.providerLogouts.inc({ provider, outcome: refused === undefined ? 'accepted' : 'refused' });
      const suppressed = refused === undefined ? undefined : throttle(`${provider} ${refused}`);
      if (suppressed !== undefined)
        log.warn({ provider, reason: refused, suppressed }, 'identity provider logout refused');
    },
  };
}
