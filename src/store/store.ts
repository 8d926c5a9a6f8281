import type { DirectoryStore } from './directory-store.js';
import type { FleetStore } from './fleet-store.js';
import type { LoginThrottleStore } from './login-throttle-store.js';
import type { Maintenance } from './maintenance.js';
import type { SessionStore } from './session-store.js';
import type { SigningKeyStore } from './signing-key-store.js';
import type { TokenStore } from './token-store.js';
import type { UsageStore } from './usage-store.js';
import type { WebhookStore } from './webhook-store.js';

/**
 * Where accounts, tokens and sessions are kept, by what a caller needs.
 *
 * Every implementation passes the same tests (`test/store/contract`). What all of them promise:
 *
 * - A write that resolved is durable; a write that was refused or threw changed nothing, unless it threw
 *   `OutcomeUnknown`: then it may have been made.
 * - A revocation that resolved is seen by the next look-up of every process on the same store.
 * - Secrets are known by digest only.
 * - A store that cannot answer throws `StoreUnavailable`; it never answers "not there" instead.
 *
 * Look-ups return `undefined` for what is not there. They check nothing: expired tokens, ended sessions
 * and locked owners are returned as they are.
 *
 * Each part is a plain object of functions, so that a wrapper replaces some of them and spreads the others.
 */
export interface Store {
  readonly tokens: TokenStore;
  readonly sessions: SessionStore;
  readonly directory: DirectoryStore;
  readonly loginThrottle: LoginThrottleStore;
  readonly usage: UsageStore;
  readonly signingKeys: SigningKeyStore;
  readonly fleet: FleetStore;
  readonly webhooks: WebhookStore;
  readonly maintenance: Maintenance;
}
