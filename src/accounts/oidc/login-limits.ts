import type { EpochMs } from '../../util/time.js';
import { Unavailable } from '../../domain/refusal.js';
import type { AttemptLimit, LoginThrottleStore } from '../../store/core/usage.js';
import { ignoreUnavailable } from '../login.js';
import { networkFailures, networkRate, seconds, type ThrottleSettings } from '../login-throttle.js';

/** Concurrent logins that use one provider, in this process. */
const MAX_AT_ONCE = 100;

/**
 * Limits what strangers can make logins cost: all logins from one network, as for passwords; forged
 * callbacks, like wrong passwords; and concurrent requests to one provider.
 */
export class LoginLimits {
  readonly #store: LoginThrottleStore;
  readonly #settings: ThrottleSettings;
  readonly #inProgress = new Map<string, number>();

  constructor(store: LoginThrottleStore, settings: ThrottleSettings) {
    this.#store = store;
    this.#settings = settings;
  }

  /** @returns the seconds to wait; 0 for none */
  async request(address: string, now: EpochMs): Promise<number> {
    return seconds(await this.#store.reserve([networkRate('oidc logins from ', address)], now), now);
  }

  /** Counts a callback as a failure before it is checked. @returns the seconds to wait; 0 for none */
  async attempt(address: string, now: EpochMs): Promise<number> {
    return seconds(await this.#store.reserve(this.#failures(address), now), now);
  }

  /** Takes back a callback that was not forged. */
  async release(address: string, now: EpochMs): Promise<void> {
    const release = this.#failures(address).map(({ key }) => key);
    // An attempt that cannot be taken back stays counted, which locks nobody out for long.
    await this.#store.settle({ clear: [], release }, now).catch(ignoreUnavailable);
  }

  /** @throws Unavailable if too many are in progress */
  async run<T>(provider: string, work: () => Promise<T>): Promise<T> {
    const inProgress = this.#inProgress.get(provider) ?? 0;
    if (inProgress >= MAX_AT_ONCE) {
      const refusal = { refusal: 'overloaded', detail: 'Too many logins at once' } as const;
      throw new Unavailable(refusal, 'too many logins are waiting for an identity provider');
    }
    this.#inProgress.set(provider, inProgress + 1);
    try {
      return await work();
    } finally {
      this.#inProgress.set(provider, (this.#inProgress.get(provider) ?? 1) - 1);
    }
  }

  /** Takes what may be used once in the fleet. Returns false if it was. @param kept milliseconds */
  async take(name: string, kept: number, now: EpochMs): Promise<boolean> {
    return (await this.#store.reserve([once(name, kept)], now)) === 0;
  }

  async wasTaken(name: string, kept: number, now: EpochMs): Promise<boolean> {
    return (await this.#store.blockedUntil([once(name, kept)], now)) > 0;
  }

  #failures(address: string) {
    return networkFailures('oidc address:', address, this.#settings);
  }
}

function once(key: string, forgetAfter: number): AttemptLimit {
  return { key, free: 1, stopAt: 1, longestWait: 0, forgetAfter, forgetFrom: 'first' };
}
