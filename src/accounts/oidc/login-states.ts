import { randomBytes } from 'node:crypto';
import { z } from 'zod';
import { ownPath } from '../../domain/own-path.js';
import { digestOf } from '../../domain/secret.js';
import type { EpochMs } from '../../domain/time.js';
import type { LoginThrottleStore } from '../../store/login-throttle-store.js';
import { SealBroken, type Sealer } from '../sealing.js';
import type { Proofs } from './client.js';

/** Milliseconds that somebody may take at the provider. */
export const LOGIN_TIME_MS = 10 * 60_000;

/** A login that a browser began and has not finished. */
export interface LoginState extends Proofs {
  /** Where the browser goes afterwards; null: to the web page. */
  readonly returnTo: string | null;
  /** The provider has to ask for the login anew. */
  readonly fresh: boolean;
  readonly begunAt: EpochMs;
}

const sealed = z.object({
  state: z.string(),
  nonce: z.string(),
  verifier: z.string(),
  returnTo: z.string().nullable(),
  fresh: z.boolean(),
  begunAt: z.int(),
});

/**
 * Logins that are under way. Nothing of them is kept here: the browser that began one carries it in a cookie, sealed by
 * a key that the whole fleet has. Each is taken once.
 */
export class LoginStates {
  readonly #sealer: Sealer;
  readonly #store: Pick<LoginThrottleStore, 'reserve'>;

  constructor(sealer: Sealer, store: Pick<LoginThrottleStore, 'reserve'>) {
    this.#sealer = sealer.derive('latchkey oidc login state');
    this.#store = store;
  }

  /** Begins a login. @param returnTo a path of the own origin, or it is left out */
  begin(returnTo: string | undefined, fresh: boolean, now: EpochMs): LoginState {
    const [state, nonce, verifier] = [random(), random(), random()];
    return { state, nonce, verifier, returnTo: ownPath(returnTo) ?? null, fresh, begunAt: now };
  }

  /** What the browser keeps. @param provider the only one whose callback takes it */
  seal(state: LoginState, provider: string): string {
    return this.#sealer.seal(JSON.stringify(state), provider);
  }

  /** Opens what a browser kept; undefined for what was not sealed for this provider, or too long ago. */
  open(text: string, provider: string, now: EpochMs): LoginState | undefined {
    try {
      const state = sealed.parse(JSON.parse(this.#sealer.open(text, provider)));
      return Math.abs(now - state.begunAt) <= LOGIN_TIME_MS ? state : undefined;
    } catch (error) {
      if (error instanceof SealBroken) return undefined;
      throw error;
    }
  }

  /** Takes a login. Returns false for one that was taken before, by any process. */
  async take({ state }: LoginState, now: EpochMs): Promise<boolean> {
    const once = { free: 1, stopAt: 1, longestWait: 0, forgetAfter: 2 * LOGIN_TIME_MS, forgetFrom: 'first' } as const;
    return (await this.#store.reserve([{ key: `oidc:${digestOf(state)}`, ...once }], now)) === 0;
  } // prettier-ignore
}

/** 256 random bits, in base64url as OAuth requires. */
function random(): string {
  return randomBytes(32).toString('base64url');
}
