import type { SigningKeys } from '../../../src/domain/signing-key.js';
import type { Check } from './check.js';
import { signingKey } from './records.js';

/** Signing keys. */
export async function signingKeyStoreContract(check: Check): Promise<void> {
  await check('replaces signing keys only for a caller who knows their revision, once', async (t, store, reopen) => {
    t.equal(await store.signingKeys.get(), undefined);
    const keys = (revision: number, ...kids: string[]): SigningKeys => ({ revision, keys: kids.map(signingKey) });
    t.equal(await store.signingKeys.replace(keys(2, 'A')), false, 'an empty store has no revision 1');
    const first = await Promise.all(['A', 'B', 'C'].map((kid) => store.signingKeys.replace(keys(1, kid))));
    t.equal(first.filter(Boolean).length, 1, 'one of several concurrent changes is accepted');
    const [kid = ''] = ['A', 'B', 'C'].filter((_, i) => first[i]);
    t.same(await store.signingKeys.get(), keys(1, kid));
    t.equal(await store.signingKeys.replace(keys(3, 'X')), false);
    t.equal(await store.signingKeys.replace(keys(2, kid, 'D')), true);
    const again = await reopen();
    t.same(await again.signingKeys.get(), keys(2, kid, 'D'), 'across restarts');
    t.equal(await again.signingKeys.remove(), true);
    t.equal(await again.signingKeys.remove(), false);
    t.equal(await again.signingKeys.get(), undefined);
    t.equal(await again.signingKeys.replace(keys(1, 'E')), true, 'starts from the beginning');
  }); // prettier-ignore
}
