import { randomBytes } from 'node:crypto';
import { z } from 'zod';
import { SealBroken, type Sealer } from '../sealing.js';
import type { EpochMs } from '../../util/time.js';
import type { AttemptLimit, LoginThrottleStore } from '../../store/core/usage.js';
import { ignoreUnavailable } from '../login.js';
import { networkFailures, networkRate, seconds, type ThrottleSettings } from '../login-throttle.js';
import { LoginQueue } from '../passwords.js';

/** Maximum milliseconds that a person may spend at the provider. */
export const LOGIN_TIME_MS = 10 * 60_000;

/** A login that a browser began and has not completed. */
const loginState = z.object({
  state: z.string(),
  nonce: z.string(),
  verifier: z.string(),
  /** Where the browser goes afterwards; null: to the web page. */
  returnTo: z.string().nullable(),
  /** Whether the provider must ask for the login again. */
  fresh: z.boolean(),
  begunAt: z.int(),
});

export type LoginState = z.output<typeof loginState>;

/**
 * A login in progress is kept only in a cookie of the browser that began it, sealed with the fleet's key for
 * one provider.
 * @param returnTo a path of this origin; null: to the web page
 */
export function newLoginState(returnTo: string | null, fresh: boolean, now: EpochMs): LoginState {
  const [state, nonce, verifier] = [random(), random(), random()];
  return { state, nonce, verifier, returnTo, fresh, begunAt: now };
}

/** Opens a cookie value; undefined if it was not sealed for this provider or is too old. */
export function openLoginState(
  sealer: Sealer,
  text: string,
  provider: string,
  now: EpochMs,
): LoginState | undefined {
  const opened = openedBy(sealer, text, provider);
  if (opened === undefined) return undefined;
  const state = loginState.parse(JSON.parse(opened));
  return Math.abs(now - state.begunAt) <= LOGIN_TIME_MS ? state : undefined;
}

/** Undefined if it was sealed with another key, or for another owner. */
export function openedBy(sealer: Sealer, text: string, owner: string): string | undefined {
  try {
    return sealer.open(text, owner);
  } catch (error) {
    if (error instanceof SealBroken) return undefined;
    throw error;
  }
}

/** Returns 256 random bits in base64url, as OAuth requires. */
function random(): string {
  return randomBytes(32).toString('base64url');
}

/** Concurrent logins that use one provider, in this process. */
const MAX_AT_ONCE = 100;

/**
 * Limits what strangers can make logins cost: all logins from one network, as for passwords; forged
 * callbacks, like wrong passwords; and concurrent requests to one provider.
 */
export class LoginLimits {
  readonly #store: LoginThrottleStore;
  readonly #settings: ThrottleSettings;
  readonly #queues = new Map<string, LoginQueue>();

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
    const queue = this.#queues.get(provider) ?? new LoginQueue(MAX_AT_ONCE, 0);
    this.#queues.set(provider, queue);
    return queue.run(provider, work);
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
