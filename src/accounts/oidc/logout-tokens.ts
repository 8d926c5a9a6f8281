import { digestOf } from '../../domain/secret.js';
import type { EpochMs } from '../../util/time.js';
import type { AttemptLimit, LoginThrottleStore } from '../../store/core/usage.js';
import { MAX_TOKEN_AGE } from './settings.js';

/** Longer than a logout token is valid. */
const REMEMBERED_MS = 2 * MAX_TOKEN_AGE * 1000;

/**
 * Each takes effect once in the fleet (OpenID Connect Back-Channel Logout 2.6 and 8). It is noted after its
 * sessions ended, so that a provider that received no response may send it again.
 */
export class LogoutTokens {
  readonly #store: Pick<LoginThrottleStore, 'blockedUntil' | 'reserve'>;

  constructor(store: Pick<LoginThrottleStore, 'blockedUntil' | 'reserve'>) {
    this.#store = store;
  }

  async tookEffect(issuer: string, jti: string, now: EpochMs): Promise<boolean> {
    return (await this.#store.blockedUntil([onceOf(issuer, jti)], now)) > 0;
  }

  async note(issuer: string, jti: string, now: EpochMs): Promise<void> {
    await this.#store.reserve([onceOf(issuer, jti)], now);
  }
}

function onceOf(issuer: string, jti: string): AttemptLimit {
  const key = `oidc logout:${digestOf(JSON.stringify([issuer, jti]))}`;
  return { key, free: 1, stopAt: 1, longestWait: 0, forgetAfter: REMEMBERED_MS, forgetFrom: 'first' };
}
