import type { DirectoryStore } from './directory-store.js';
import type { FleetStore } from './fleet-store.js';
import type { LoginThrottleStore } from './login-throttle-store.js';
import type { SessionStore } from './session-store.js';
import type { TokenStore } from './token-store.js';
import type { UsageStore } from './usage-store.js';
import type { WebhookStore } from './webhook-store.js';
import type { MaybePromise } from '../domain/maybe-promise.js';
import type { SigningKeys } from '../domain/signing-key.js';
import type { EpochMs } from '../domain/time.js';

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

export interface SigningKeyStore {
  /** `undefined` when none were made. */
  get(): MaybePromise<SigningKeys | undefined>;
  /**
   * Writes the signing keys when those that are there have the revision before, or none are there and the revision is 1.
   * Returns whether it wrote. The check and the write are one step.
   */
  replace(next: SigningKeys): Promise<boolean>;
  /** Removes the signing keys, readable or not. Returns whether some were there. */
  remove(): Promise<boolean>;
}

/** A store as a whole: from its beginning to its end. */
export interface Maintenance {
  /**
   * Begins the store when there is none yet, and checks that this Latchkey can use it. Whoever starts calls it once;
   * a worker that is replaced does not, so that a store that was emptied is noticed and not begun anew.
   *
   * @param purpose of one who brings an unfinished restore to its end; everyone else is refused such a store
   * @throws StoreUnusable when it cannot be used as it is; StoreUnavailable when it cannot answer
   */
  begin(purpose?: 'restore'): Promise<void>;
  /** Whether records of another store are being written into this one, or were until that was interrupted. */
  isRestoring(): MaybePromise<boolean>;
  /** Notes that such a restore begins, or is done. */
  setRestoring(restoring: boolean): Promise<void>;
  /** Resolves when the store answers, throws StoreUnavailable otherwise. */
  probe(): Promise<void>;
  /** Resolves when the store takes a write, to a key that nothing else uses; throws StoreUnavailable otherwise. */
  probeWrite(): Promise<void>;
  /**
   * Removes what nobody can use any more: sessions past their end or idle, tokens that expired before
   * `tokensBefore`, forgotten login attempts and addresses, expired sudo grants. Removes at most `limit` records and returns how many.
   */
  removeExpired(now: EpochMs, tokensBefore: EpochMs, limit: number): Promise<number>;
  /** Waits for what is being written and closes. */
  close(): Promise<void>;
}
