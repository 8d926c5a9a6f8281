import { KeyRing } from '../../accounts/signing-keys.js';
import type { Config } from '../../config/schema/config.js';
import { StoreUnavailable } from '../../store/faults.js';
import type { OpenedStore } from './open-store.js';

/** The keys of assertions; null when none are signed. @param onAway called when the store can't be asked and known keys keep signing */
export function openKeyRing(
  { identity }: Config,
  { store, sealer }: Pick<OpenedStore, 'store' | 'sealer'>,
  onAway: (error: StoreUnavailable) => void,
): KeyRing | null {
  const { assertion } = identity;
  return assertion.enabled ? new KeyRing(store.signingKeys, sealer, assertion, onAway) : null;
}

/**
 * Makes sure that what a configuration signs with is there and can be used. A store that can't be asked now is no fault:
 * nothing is forwarded until it can.
 *
 * @throws Unavailable when nothing can be signed with them
 */
export async function checkSigningKeys(config: Config, opened: OpenedStore): Promise<void> {
  const keys = openKeyRing(config, opened, () => undefined);
  await keys?.findSigner(Date.now()).catch((error: unknown) => {
    if (!(error instanceof StoreUnavailable)) throw error;
  });
}
