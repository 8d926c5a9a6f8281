import type { DirectoryStore } from './directory-store.js';
import type { RemovableKind } from './records.js';
import type { FleetStore } from './fleet-store.js';
import type { LoginThrottleStore } from './login-throttle-store.js';
import type { SessionStore } from './session-store.js';
import type { TokenStore } from './token-store.js';
import type { UsageStore } from './usage-store.js';
import type { WebhookStore } from './webhook-store.js';
import type { MaybePromise } from '../util/async.js';
import type { SigningKeys } from '../domain/signing-key.js';
import type { EpochMs } from '../util/time.js';

/**
 * A store of accounts, tokens and sessions, split into parts by what callers need.
 *
 * Every implementation passes the same tests (`test/store/contract`) and guarantees that:
 *
 * - A write that resolved is durable. A write that was refused or threw changed nothing, except
 *   when it threw `OutcomeUnknown`: then it may have been applied.
 * - A revocation that resolved is seen by the next look-up of every process on the same store.
 * - Secrets are known by digest only.
 * - A store that cannot answer throws `StoreUnavailable`; it never
 *   reports a record as missing instead.
 *
 * Look-ups return `undefined` for a record that does not exist. They check nothing: expired tokens,
 * ended sessions and locked owners are returned as they are.
 *
 * Each part is a plain object of functions, so a wrapper can replace some and spread the others.
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
  /** Returns `undefined` if no keys exist. */
  get(): MaybePromise<SigningKeys | undefined>;
  /**
   * Replaces the signing keys if the stored ones have the previous revision. If none are stored,
   * the revision must be 1. Returns whether it wrote. The check and the write are atomic.
   */
  replace(next: SigningKeys): Promise<boolean>;
  /** Removes the signing keys, readable or not. Returns whether any existed. */
  remove(): Promise<boolean>;
}

/** Operations on a store as a whole. */
export interface Maintenance {
  /**
   * Initializes a new store, and checks that this Latchkey can use an existing one. Called once
   * per start. A replacement worker does not call it, so that an emptied store is noticed
   * rather than initialized again.
   *
   * @param purpose `restore` for a restore or copy, which may complete an unfinished one; any other
   * caller is refused such a store
   * @throws StoreUnusable if the store cannot be used as it is;
   * StoreUnavailable if it does not answer
   */
  initialize(purpose?: 'restore'): Promise<void>;
  /** Whether a restore or copy into this store is in progress or was interrupted. */
  isRestoring(): MaybePromise<boolean>;
  /** Marks such a restore as begun or completed. */
  setRestoring(restoring: boolean): Promise<void>;
  /** Resolves if the store answers; throws StoreUnavailable otherwise. */
  probe(): Promise<void>;
  /**
   * Resolves if the store accepts a write (to a key of its own); throws StoreUnavailable otherwise.
   */
  probeWrite(): Promise<void>;
  /** Returns the time by the clock of the store; a networked store has its own. */
  clock(): Promise<EpochMs>;
  /**
   * Removes expired records and returns how many; at most `limit`. These are sessions that ended or
   * timed out, tokens that expired before `tokensBefore`, and expired login attempts, known
   * addresses and sudo grants.
   */
  removeExpired(now: EpochMs, tokensBefore: EpochMs, limit: number): Promise<number>;
  /**
   * Removes a damaged record with its index entries, as far as they are known. A session and a token
   * may be named by the beginning of their digest, a webhook by `ENDPOINT/SUBJECT`, and the oldest
   * damaged dead letter by its endpoint. Returns whether there was one.
   *
   * @throws RecordNewer for a record of a newer Latchkey
   */
  removeDamaged(kind: RemovableKind, name: string): Promise<boolean>;
  /** Waits for writes in flight, then closes the store. */
  close(): Promise<void>;
}
