import { KeyRing } from '../../accounts/signing-keys.js';
import type { Config } from '../../config/schema/config.js';
import { StoreUnavailable } from '../../store/faults.js';
import type { OpenedStore } from './open-store.js';

/**
 * Opens the keys of assertions; null when none are signed.
 *
 * @param onStoreUnavailable called when the store is unavailable and known keys continue to sign
 */
export function openKeyRing(
  { identity }: Config,
  { store, sealer }: Pick<OpenedStore, 'store' | 'sealer'>,
  onStoreUnavailable: (error: StoreUnavailable) => void,
): KeyRing | null {
  const { assertion } = identity;
  return assertion.enabled ? new KeyRing(store.signingKeys, sealer, assertion, onStoreUnavailable) : null;
}

/**
 * Checks that the signing keys of a configuration exist and can be used.
 *
 * An unavailable store is not an error: nothing is forwarded until it is available.
 *
 * @throws Unavailable when nothing can be signed with them
 */
export async function checkSigningKeys(config: Config, opened: OpenedStore): Promise<void> {
  const keys = openKeyRing(config, opened, () => undefined);
  await keys?.findSigner(Date.now()).catch((error: unknown) => {
    if (!(error instanceof StoreUnavailable)) throw error;
  });
}
