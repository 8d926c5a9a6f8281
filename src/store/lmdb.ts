import { type CopyFault, CopyWatch } from './lmdb/copies.js';
import { type Databases, openDatabases } from './lmdb/databases.js';
import { lmdbDirectoryStore } from './lmdb/directory-store.js';
import { EndedLog } from './lmdb/ended-log.js';
import { lmdbFleetStore } from './lmdb/fleet-store.js';
import { Lists } from './lmdb/lists.js';
import { lmdbLoginThrottleStore } from './lmdb/login-throttle-store.js';
import { LookUps } from './lmdb/look-ups.js';
import { lmdbMaintenance } from './lmdb/maintenance.js';
import { lmdbSessionStore } from './lmdb/session-store.js';
import { readSigningKeys, removeSigningKeys, replaceSigningKeys } from './lmdb/signing-keys.js';
import { lmdbTokenStore } from './lmdb/token-store.js';
import { DiskSpace, Transactions } from './lmdb/transactions.js';
import { lmdbUsageStore } from './lmdb/usage-store.js';
import type { Endings } from './endings.js';
import { lmdbWebhookStore } from './lmdb/webhook-store.js';
import type { Store } from './store.js';

/**
 * Opens the embedded store in a folder. Several processes may hold the same folder open.
 *
 * @param minFree bytes that must be free on its disk for a write (`store.min_free`)
 * @param onCopyFault given by a server, which notices copies that are put in the place of the folder
 * @param endings given by a process that serves: what ends in the store, by whichever process, is told there
 */
export function openLmdbStore(
  path: string,
  minFree = 0,
  onCopyFault?: (fault: CopyFault) => void,
  endings?: Endings,
): Store {
  const dbs = openDatabases(path);
  const transactions = new Transactions(dbs, new DiskSpace(path, minFree));
  const copyWatch = onCopyFault && watchForCopies(path, dbs, transactions, onCopyFault);
  const endedLog = endings && new EndedLog(transactions, endings);
  const lists = new Lists(transactions);
  const lookUps = new LookUps(dbs);
  return {
    tokens: lmdbTokenStore(transactions, lookUps, lists),
    sessions: lmdbSessionStore(transactions, lookUps, lists),
    directory: lmdbDirectoryStore(transactions, lists),
    loginThrottle: lmdbLoginThrottleStore(transactions),
    usage: lmdbUsageStore(transactions),
    signingKeys: {
      get: () => transactions.read(readSigningKeys),
      replace: async (next) => transactions.write((open) => replaceSigningKeys(open, next)),
      remove: async () => transactions.remove(removeSigningKeys),
    },
    fleet: lmdbFleetStore(path, transactions),
    webhooks: lmdbWebhookStore(transactions, dbs.outbox),
    maintenance: lmdbMaintenance(transactions, async () => {
      endedLog?.close();
      copyWatch?.close();
      await transactions.close();
    }),
  };
}

function watchForCopies(
  path: string,
  dbs: Databases,
  transactions: Transactions,
  onCopyFault: (fault: CopyFault) => void,
): CopyWatch {
  return new CopyWatch(path, dbs, (fault) => {
    if (fault.kind === 'replaced') transactions.refuse(`the files of ${path} were replaced while in use`);
    onCopyFault(fault);
  });
}
