import { KeyRing } from '../../accounts/signing-keys.js';
import type { Config } from '../../config/schema/config.js';
import { StoreUnavailable } from '../../store/faults.js';
import type { OpenedStore } from './open-store.js';

/**
 * Null when no assertions are signed.
 * @param onStoreUnavailable called when known keys continue to sign without the store
 */
export function openKeyRing(
  { identity }: Config,
  { store, sealer }: Pick<OpenedStore, 'store' | 'sealer'>,
  onStoreUnavailable: (error: StoreUnavailable) => void,
): KeyRing | null {
  const { assertion } = identity;
  return assertion.enabled ? new KeyRing(store.signingKeys, sealer, assertion, onStoreUnavailable) : null;
}

export async function checkSigningKeys(config: Config, opened: OpenedStore): Promise<void> {
  const keys = openKeyRing(config, opened, () => undefined);
  await keys?.findSigner(Date.now()).catch((error: unknown) => {
    if (!(error instanceof StoreUnavailable)) throw error;
  });
}
