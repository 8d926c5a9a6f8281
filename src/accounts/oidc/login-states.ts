import { randomBytes } from 'node:crypto';
import { z } from 'zod';
import { SealBroken, type Sealer } from '../sealing.js';
import type { EpochMs } from '../../util/time.js';
import type { Proofs } from './client.js';
import type { ProviderSettings } from './settings.js';

/** Maximum milliseconds that a person may spend at the provider. */
export const LOGIN_TIME_MS = 10 * 60_000;

/** A login that a browser began and has not completed. */
export interface LoginState extends Proofs {
  /** Where the browser goes afterwards; null: to the web page. */
  readonly returnTo: string | null;
  /** Whether the provider must ask for the login again. */
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
 * The logins in progress, kept only in cookies.
 *
 * The browser that began a login carries it in a cookie, sealed with a key that the whole fleet
 * shares.
 */
export class LoginStates {
  readonly #sealer: Sealer;

  constructor(sealer: Sealer) {
    this.#sealer = sealer.derive('latchkey oidc login state');
  }

  /** @param returnTo a path of this origin; null: to the web page */
  begin(returnTo: string | null, fresh: boolean, now: EpochMs): LoginState {
    const [state, nonce, verifier] = [random(), random(), random()];
    return { state, nonce, verifier, returnTo, fresh, begunAt: now };
  }

  /**
   * Returns the cookie value for a login.
   *
   * @param provider the only provider whose callback accepts it
   */
  seal(state: LoginState, provider: string): string {
    return this.#sealer.seal(JSON.stringify(state), provider);
  }

  /** Opens a cookie value; undefined if it was not sealed for this provider or is too old. */
  open(text: string, provider: string, now: EpochMs): LoginState | undefined {
    try {
      const state = sealed.parse(JSON.parse(this.#sealer.open(text, provider)));
      return Math.abs(now - state.begunAt) <= LOGIN_TIME_MS ? state : undefined;
    } catch (error) {
      if (error instanceof SealBroken) return undefined;
      throw error;
    }
  }
}

/** Returns 256 random bits in base64url, as OAuth requires. */
function random(): string {
  return randomBytes(32).toString('base64url');
}

const MAX_ID_TOKEN = 4 * 1024;

type Owner = Pick<ProviderSettings, 'issuer' | 'provider_logout'>;

/**
 * ID tokens that sessions keep for the logout at their provider, sealed: others may accept one as a
 * credential.
 */
export class IdTokens {
  readonly #sealer: Sealer;

  constructor(sealer: Sealer) {
    this.#sealer = sealer.derive('latchkey oidc id token');
  }

  /** Undefined if it is too long, or its provider needs none. */
  seal(idToken: string, { issuer, provider_logout: isUsed }: Owner): string | undefined {
    return isUsed && idToken.length <= MAX_ID_TOKEN ? this.#sealer.seal(idToken, issuer) : undefined;
  }

  /** Undefined if it was sealed with another key. */
  open(sealed: string | undefined, { issuer }: Owner): string | undefined {
    try {
      return sealed === undefined ? undefined : this.#sealer.open(sealed, issuer);
    } catch (error) {
      if (error instanceof SealBroken) return undefined;
      throw error;
    }
  }
}
