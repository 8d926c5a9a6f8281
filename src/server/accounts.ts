import { HttpAccounts } from '../accounts/http-accounts.js';
import { LastSeen } from '../accounts/last-seen.js';
import { LoginThrottle } from '../accounts/login-throttle.js';
import { Logins } from '../accounts/login.js';
import { OneTimePasswords } from '../accounts/one-time-passwords.js';
import { Sessions } from '../accounts/sessions.js';
import { StoredAccounts } from '../accounts/stored-accounts.js';
import { Tokens } from '../accounts/tokens.js';
import type { Config } from '../config/schema/config.js';
import type { Log } from '../observe/log.js';
import { metrics, storeMetrics } from '../observe/metrics.js';
import type { FaultLog } from '../pipeline/faults.js';
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
  const accounts =
    source ?? new StoredAccounts(store.directory, passwords, new OneTimePasswords(store.usage, sealer));
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
    close: async () => {
      await lastSeen
        .close()
        .catch((error: unknown) => log.warn({ err: error }, 'last-seen data lost at shutdown'));
      await source?.close();
    },
  };
}
