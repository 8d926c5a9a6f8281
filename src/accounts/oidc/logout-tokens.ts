import { digestOf } from '../../domain/secret.js';
import type { EpochMs } from '../../domain/time.js';
import type { AttemptLimit, LoginThrottleStore } from '../../store/login-throttle-store.js';
import { MAX_TOKEN_AGE } from './settings.js';

/** Longer than a logout token counts, on whichever side a clock is off. */
const REMEMBERED_MS = 2 * MAX_TOKEN_AGE * 1000;

/**
 * Logout tokens that took effect, which count once in the fleet (OpenID Connect Back-Channel Logout 2.6, 8). One is noted
 * when all of its sessions ended: a provider that got no answer may send it again.
 */
export class LogoutTokens {
  readonly #store: Pick<LoginThrottleStore, 'heldUntil' | 'reserve'>;

  constructor(store: Pick<LoginThrottleStore, 'heldUntil' | 'reserve'>) {
    this.#store = store;
  }

  async tookEffect(issuer: string, jti: string, now: EpochMs): Promise<boolean> {
    return (await this.#store.heldUntil([onceOf(issuer, jti)], now)) > 0;
  }

  async note(issuer: string, jti: string, now: EpochMs): Promise<void> {
    await this.#store.reserve([onceOf(issuer, jti)], now);
  }
}

function onceOf(issuer: string, jti: string): AttemptLimit {
  const key = `oidc logout:${digestOf(JSON.stringify([issuer, jti]))}`;
  return { key, free: 1, stopAt: 1, longestWait: 0, forgetAfter: REMEMBERED_MS, forgetFrom: 'first' };
}
