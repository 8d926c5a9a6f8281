import { type Databases, openDatabases } from './lmdb/databases.js';
import { lmdbDirectoryStore } from './lmdb/directory-store.js';
import { EndedLog } from './lmdb/ended-log.js';
import { lmdbFleetStore } from './lmdb/fleet-store.js';
import { Lists } from './lmdb/lists.js';
import { lmdbLoginThrottleStore } from './lmdb/login-throttle-store.js';
import { LookUps } from './lmdb/look-ups.js';
import { lmdbMaintenance } from './lmdb/maintenance.js';
import { lmdbSessionStore, recordSessionUse } from './lmdb/session-store.js';
import { lmdbTokenStore } from './lmdb/token-store.js';
import { DiskSpace, Transactions } from './lmdb/transactions.js';
import type { Endings } from './endings.js';
import { lmdbWebhookStore } from './lmdb/webhook-store.js';
import type { Store } from './store.js';
import { takeFrom } from '../domain/rate.js';
import { HOUR_MS } from '../util/time.js';
import type { UsageStore } from './usage-store.js';
import { recordTokenUse } from './lmdb/tokens.js';
import type { SigningKeys } from '../domain/signing-key.js';
import { encode, signingKeysOf } from './records.js';

/**
 * Opens the embedded store in a folder. Several processes may open the same folder.
 *
 * @param minFree bytes that must be free on its disk for a write (`store.min_free`)
 * @param endings passed by a serving process; notified of credentials
 * that any process ends or changes
 */
export function openLmdbStore(path: string, minFree = 0, endings?: Endings): Store {
  const dbs = openDatabases(path);
  const transactions = new Transactions(dbs, new DiskSpace(path, minFree));
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
      await transactions.close();
    }),
  };
}

function lmdbUsageStore(transactions: Transactions): UsageStore {
  return {
    recordUses: async ({ tokens, sessions }) => {
      await transactions.writeInParts([...tokens], (dbs, [id, use]) => recordTokenUse(dbs, id, use));
      await transactions.writeInParts([...sessions], (dbs, [digest, use]) =>
        recordSessionUse(dbs, digest, use),
      );
    },
    takeOtpStep: async (userId, step) =>
      transactions.write(({ otpSteps }) => {
        if ((otpSteps.get(userId) ?? -1) >= step) return false;
        otpSteps.putSync(userId, step);
        return true;
      }),
    getOtpStep: (userId) => transactions.read(({ otpSteps }) => otpSteps.get(userId) ?? -1),
    countWrite: async (userId, hour) =>
      transactions.write(({ writes }) => {
        const known = writes.get(userId);
        const isCurrent = known !== undefined && (known.hour === hour || known.hour === hour + HOUR_MS);
        const next = isCurrent ? { hour: known.hour, count: known.count + 1 } : { hour, count: 1 };
        writes.putSync(userId, next);
        return next.count;
      }),
    // This only replaces a number, so it continues when disk space is low.
    leaseRate: async (tokenId, rate, want) =>
      transactions.remove(({ rates }) => {
        const before = rates.get(tokenId) ?? 0;
        const { granted, state, retryAfter } = takeFrom(before, rate, want, Date.now());
        // A state beyond an empty bucket (see takeFrom) is replaced: it would never refill.
        if (granted > 0 || state < before) rates.putSync(tokenId, state);
        return { granted, retryAfter };
      }),
  };
}

const ALL = 'all';

function readSigningKeys({ signingKeys }: Databases): SigningKeys | undefined {
  const stored = signingKeys.get(ALL);
  return stored === undefined ? undefined : signingKeysOf(stored);
}

/** Replaces the keys of the previous revision. Run it in a write transaction. */
function replaceSigningKeys(dbs: Databases, next: SigningKeys): boolean {
  if ((readSigningKeys(dbs)?.revision ?? 0) !== next.revision - 1) return false;
  dbs.signingKeys.putSync(ALL, encode(next));
  return true;
}

/** Run it in a write transaction. */
function removeSigningKeys({ signingKeys }: Databases): boolean {
  return signingKeys.removeSync(ALL);
}
