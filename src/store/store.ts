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
 * A write that resolved is durable; one that threw changed nothing, unless it threw `OutcomeUnknown`.
 * A resolved revocation is seen by the next look-up of every process. A store that cannot answer throws
 * `StoreUnavailable` and never reports a record as missing. Look-ups return expired tokens, ended
 * sessions and locked owners as they are.
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
  get(): MaybePromise<SigningKeys | undefined>;
  /** Writes if the stored revision is the previous one (none: 0). Returns whether it did. */
  replace(next: SigningKeys): Promise<boolean>;
  /** Removes the signing keys, readable or not. Returns whether any existed. */
  remove(): Promise<boolean>;
}

export interface Maintenance {
  /**
   * Initializes a new store and checks an existing one. A replacement worker does not call it, so that
   * an emptied store is noticed. @param purpose `restore` may complete an unfinished one
   */
  initialize(purpose?: 'restore'): Promise<void>;
  isRestoring(): MaybePromise<boolean>;
  setRestoring(restoring: boolean): Promise<void>;
  probe(): Promise<void>;
  /** Writes to a key of its own. */
  probeWrite(): Promise<void>;
  clock(): Promise<EpochMs>;
  /** Removes at most `limit` expired records; of tokens those that expired before `tokensBefore`. */
  removeExpired(now: EpochMs, tokensBefore: EpochMs, limit: number): Promise<number>;
  /**
   * A session or token may be named by the beginning of its digest, a webhook by `ENDPOINT/SUBJECT`,
   * and the oldest damaged dead letter by its endpoint. Returns whether there was one.
   */
  removeDamaged(kind: RemovableKind, name: string): Promise<boolean>;
  /** Waits for writes in flight, then closes the store. */
  close(): Promise<void>;
}
