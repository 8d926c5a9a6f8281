import { HttpAccounts } from '../accounts/http-accounts.js';
import type { JwtEvents } from '../accounts/jwt/issuers.js';
import { LastSeen } from '../accounts/last-seen.js';
import { LoginThrottle } from '../accounts/login-throttle.js';
import { Logins } from '../accounts/login.js';
import { type OidcEvents, ProviderLogins } from '../accounts/oidc/provider-logins.js';
import { Sessions } from '../accounts/sessions.js';
import { KeyRing } from '../accounts/signing-keys.js';
import { StoredAccounts } from '../accounts/stored-accounts.js';
import { Tokens } from '../accounts/tokens.js';
import type { Config } from '../config/schema/config.js';
import type { EndpointServices } from '../endpoints/endpoint.js';
import type { Log } from '../observe/log.js';
import { metrics, storeMetrics } from '../observe/metrics.js';
import type { FaultLog } from '../pipeline/faults.js';
import { StoreUnavailable } from '../store/faults.js';
import { printable } from '../util/text.js';
import { createLogThrottle } from '../util/time.js';
import { reasonOf } from './online-checks.js';
import type { OpenedStore } from './stores/open-store.js';

/** Opens the services for tokens, sessions and logins of a configuration, on a store. */
export function openAccounts(
  config: Config,
  { store, passwords, sealer }: OpenedStore,
  log: Log,
  logFault: FaultLog,
) {
  const lastSeen = new LastSeen(
    store.usage,
    config.tokens.last_seen_interval,
    config.sessions.idle_timeout,
    (error: unknown) => {
      storeMetrics.lastSeenFailures.inc();
      logFault(error, 'last-seen data not written; retrying');
    },
  );
  const sessions = new Sessions(store, lastSeen, config.sessions);
  const scopes = Object.keys(config.policy.scopes);
  const tokens = new Tokens(store, lastSeen, config.tokens, scopes);
  const { http } = config.directory;
  const source = http === null ? null : new HttpAccounts(store.directory, http);
  const accounts = source ?? new StoredAccounts(store, passwords, sealer);
  const logins = new Logins(
    accounts,
    new LoginThrottle(store.loginThrottle, config.login),
    (outcome) => metrics.loginChecks.inc({ outcome }),
    async (user, retryAfter) => {
      const locked = user && { userId: user.id, reason: 'failed_logins' as const, retryAfter };
      try {
        await store.webhooks.queueLocked(locked, user?.customerId ?? null, Date.now());
      } catch (error) {
        logFault(error, 'webhook event of a locked login not queued');
      }
    },
  );
  return {
    lastSeen,
    sessions,
    tokens,
    logins,
    /** Never rejects. */
    close: async () => {
      await Promise.all([lastSeen.close(), source?.close()]).catch((error: unknown) =>
        log.warn({ err: error }, 'last-seen data lost'),
      );
    },
  };
}

/**
 * Null when no assertions are signed.
 * @param onStoreUnavailable called when known keys continue to sign without the store
 */
export function openKeyRing(
  { identity }: Config,
  { store, sealer }: Pick<OpenedStore, 'store' | 'sealer'>,
  onStoreUnavailable: (error: StoreUnavailable) => void,
): KeyRing | null {
  const { assertion } = identity;
  return assertion.enabled ? new KeyRing(store.signingKeys, sealer, assertion, onStoreUnavailable) : null;
}

export async function checkSigningKeys(config: Config, opened: OpenedStore): Promise<void> {
  const keys = openKeyRing(config, opened, () => undefined);
  await keys?.findSigner(Date.now()).catch((error: unknown) => {
    if (!(error instanceof StoreUnavailable)) throw error;
  });
}

/** Counts JWT events, and logs when fetching keys starts failing or recovers. */
export function createJwtEvents(log: Log): JwtEvents {
  const throttle = createLogThrottle(60_000);
  const failing = new Set<string>();
  return {
    verified: (issuer, outcome) => metrics.jwtVerifications.inc({ issuer, outcome }),
    fetched: (issuer, error) => {
      metrics.jwtKeyFetches.inc({ issuer, outcome: error === undefined ? 'succeeded' : 'failed' });
      if (error === undefined) {
        if (failing.delete(issuer)) log.info({ issuer }, 'issuer keys reachable again');
        return;
      }
      failing.add(issuer);
      const reason = printable(error instanceof Error ? error.message : 'unknown');
      const suppressed = throttle(`${issuer} ${reason}`);
      if (suppressed !== undefined)
        log.warn({ issuer, reason, suppressed }, 'issuer keys unreachable; known keys stay in use');
    },
  };
}

export function openOidc(
  config: Config,
  { store, sealer }: Pick<OpenedStore, 'store' | 'sealer'>,
  log: Log,
): EndpointServices['oidc'] {
  const { login, directory } = config;
  const { public_url: origin } = login;
  if (login.oidc.length === 0 || origin === null) return null;
  const pageUrl = `${origin}${config.interface.ui.path}`;
  return {
    logins: new ProviderLogins(config, pageUrl, store, sealer, createOidcEvents(log)),
    pageUrl,
    hasPasswords: async () => directory.http !== null || (await store.directory.getPasswordCost()) > 0,
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
