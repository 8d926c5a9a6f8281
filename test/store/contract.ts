import type { Test } from 'tap';
import type { Store } from '../../src/store/core/store.js';
import { EVERY_CASE } from '../helpers/nightly.js';
import type { Check } from './contract/check.js';
import { directoryStoreContract } from './contract/directory-store.js';
import { fleetStoreContract } from './contract/fleet-store.js';
import { loginThrottleStoreContract } from './contract/login-throttle-store.js';
import { maintenanceContract } from './contract/maintenance.js';
import { BASE, NOW } from './contract/records.js';
import { sessionStoreContract } from './contract/session-store.js';
import { signingKeyStoreContract } from './contract/signing-key-store.js';
import { tokenStoreContract } from './contract/token-store.js';
import { usageStoreContract } from './contract/usage-store.js';
import { webhookLimitsContract, webhookStoreContract } from './contract/webhook-store.js';

type Part = keyof Store | 'webhookLimits';

const CONTRACTS: Readonly<Record<Part, (check: Check) => Promise<void>>> = {
  tokens: tokenStoreContract,
  sessions: sessionStoreContract,
  directory: directoryStoreContract,
  loginThrottle: loginThrottleStoreContract,
  usage: usageStoreContract,
  signingKeys: signingKeyStoreContract,
  fleet: fleetStoreContract,
  webhooks: webhookStoreContract,
  maintenance: maintenanceContract,
  webhookLimits: webhookLimitsContract,
};

export const ALL_PARTS = Object.keys(CONTRACTS) as readonly Part[];
/** The rules are the same code over each store; what counts to 10,000 is done on the fastest. */
const USUAL_PARTS = EVERY_CASE ? ALL_PARTS : ALL_PARTS.filter((part) => part !== 'webhookLimits');

/**
 * Tests the contract of every store, part by part.
 *
 * @param open opens the same store again, empty or not; `fresh` makes another one
 * @param parts those to test
 */
export async function storeContract(
  t: Test,
  fresh: (t: Test) => { open: () => Store | Promise<Store> },
  parts = USUAL_PARTS,
): Promise<void> {
  const checkIn =
    (part: Test): Check =>
    (name, body) =>
      part.test(name, async (t) => {
        const { open } = fresh(t);
        let store = await open();
        // Also after a failed check, or the connections would keep the process alive.
        t.teardown(() => store.maintenance.close());
        await store.maintenance.initialize();
        t.equal(await store.directory.change(BASE, NOW), undefined);
        const reopen = async () => {
          await store.maintenance.close();
          return (store = await open());
        };
        await body(t, store, reopen);
      });
  for (const part of parts) await t.test(part, async (t) => CONTRACTS[part](checkIn(t)));
}
