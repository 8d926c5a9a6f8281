import { SealBroken, type Sealer } from '../sealing.js';
import type { ProviderSettings } from './settings.js';

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
