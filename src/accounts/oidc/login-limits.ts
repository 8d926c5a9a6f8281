import type { EpochMs } from '../../domain/time.js';
import { Unavailable } from '../../domain/unavailable.js';
import type { LoginThrottleStore } from '../../store/login-throttle-store.js';
import { networkFailures, networkRate, seconds, type ThrottleSettings } from '../login-throttle.js';

/** Logins that ask one provider at once in this process. What waits has a limit of its own: each answer takes seconds at most. */
const MAX_AT_ONCE = 100;

/**
 * Bounds what strangers can make logins at providers cost: all of them from one network, as for passwords; those that came
 * back with what no provider answered, as wrong passwords; and those that ask a provider at once.
 */
export class LoginLimits {
  readonly #store: Pick<LoginThrottleStore, 'reserve' | 'settle'>;
  readonly #settings: ThrottleSettings;
  readonly #asking = new Map<string, number>();

  constructor(store: Pick<LoginThrottleStore, 'reserve' | 'settle'>, settings: ThrottleSettings) {
    this.#store = store;
    this.#settings = settings;
  }

  /** Counts a request of a login, before anything else is done. Returns the seconds to wait; 0 when it may go on. */
  async request(address: string, now: EpochMs): Promise<number> {
    return seconds(await this.#store.reserve([networkRate('oidc logins from ', address)], now), now);
  }

  /** Counts an answer as a failure, before it is looked at, until it is taken back. Returns the seconds to wait, or 0. */
  async attempt(address: string, now: EpochMs): Promise<number> {
    return seconds(await this.#store.reserve(this.#failures(address), now), now);
  }

  /** Takes an answer back that was none of a stranger's. */
  async release(address: string, now: EpochMs): Promise<void> {
    const release = this.#failures(address).map(({ key }) => key);
    // An attempt that can't be taken back stays counted, which keeps nobody out for long.
    await this.#store.settle({ clear: [], release }, now).catch(ignoreUnavailable);
  }

  /** Asks a provider, unless too many do. @throws Unavailable */
  async ask<T>(provider: string, work: () => Promise<T>): Promise<T> {
    const asking = this.#asking.get(provider) ?? 0;
    if (asking >= MAX_AT_ONCE) {
      const refusal = { refusal: 'overloaded', detail: 'Too many logins at once' } as const;
      throw new Unavailable(refusal, 'too many logins wait for an identity provider');
    }
    this.#asking.set(provider, asking + 1);
    try {
      return await work();
    } finally {
      this.#asking.set(provider, (this.#asking.get(provider) ?? 1) - 1);
    }
  }

  #failures(address: string) {
    return networkFailures('oidc address:', address, this.#settings);
  }
}

function ignoreUnavailable(error: unknown): void {
  if (!(error instanceof Unavailable)) throw error;
}
