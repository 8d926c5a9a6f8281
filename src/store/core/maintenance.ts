/** The store as a whole: what expired, checks. */
import { EXPIRY } from './indexes.js';
import { mapMaybe } from '../../util/async.js';
import type { EpochMs } from '../../util/time.js';
import { StoreUnusable, UNFINISHED_RESTORE } from '../faults.js';
import type { Maintenance } from '../store.js';
import type { Events } from './events.js';
import {
  ATTEMPTS,
  KNOWN,
  type Kind,
  LOGOUT,
  META,
  QUESTION,
  RATE,
  SESSION,
  SUDO,
  TOKEN_ID,
  WRITES,
} from './kinds.js';
import { removeQuestion } from './fleet.js';
import { removeDamaged } from './removal.js';
import { expireSession, removeSudo } from './sessions.js';
import { readToken, removeToken } from './token-records.js';
import { pagesOf, type Transaction, type Transactor, valueAt } from './transaction.js';

const BATCH = 100;
/** Kinds of which only the record itself has to be removed when it expires. */
const SIMPLE: readonly Kind<unknown>[] = [ATTEMPTS, KNOWN, LOGOUT, RATE, WRITES];

export function maintenance(transactor: Transactor, events: Events): Maintenance {
  const { kv } = transactor;
  const set = async (id: string, number: number | undefined, isReserved = false): Promise<void> =>
    transactor.transact(
      async (tx) => (number === undefined ? tx.remove(META, id) : tx.put(META, id, { number })),
      { isReserved },
    );
  const isRestoring = () => mapMaybe(valueAt(kv, META, 'restoring'), (setting) => setting !== undefined);
  return {
    initialize: async (purpose) => {
      if (purpose !== 'restore' && (await isRestoring())) throw new StoreUnusable(UNFINISHED_RESTORE);
    },
    isRestoring,
    setRestoring: async (restoring) => set('restoring', restoring ? Date.now() : undefined),
    probe: async () => void (await valueAt(kv, META, 'probe')),
    probeWrite: async () => set('probe', Date.now()),
    clock: async () => kv.clock(),
    removeExpired: async (now, tokensBefore, limit) => {
      let removed = 0;
      for await (const page of pagesOf(kv, EXPIRY, { to: now })) {
        const due = page.filter(
          ({ name, score }) => !name.startsWith(`${TOKEN_ID.name}:`) || score < tokensBefore,
        );
        for (let i = 0; i < due.length && removed < limit; i += BATCH) {
          const names = due.slice(i, i + Math.min(BATCH, limit - removed)).map(({ name }) => name);
          removed += await transactor.transact(async (tx) => expire(tx, events, names, now), {
            isReserved: true,
          });
        }
        if (removed >= limit) break;
      }
      return removed;
    },
    removeDamaged: async (kind, name) => removeDamaged(transactor, kind, name),
    close: async () => kv.close(),
  };
}

/** Removes records that expired, unless their expiry has changed. Returns how many. */
async function expire(
  tx: Transaction,
  events: Events,
  names: readonly string[],
  now: EpochMs,
): Promise<number> {
  const scores = await tx.scores(EXPIRY, names);
  let removed = 0;
  for (const [i, name] of names.entries()) {
    if ((scores[i] ?? Infinity) > now) continue;
    const kind = name.slice(0, name.indexOf(':'));
    const id = name.slice(kind.length + 1);
    if (kind === SESSION.name) {
      removed += Number(await expireSession(tx, id, now));
      continue;
    }
    if (kind === TOKEN_ID.name) {
      const token = await readToken(tx, id);
      if (token !== undefined) await removeToken(tx, events, token);
    } else if (kind === SUDO.name) removeSudo(tx, id);
    else if (kind === QUESTION.name) await removeQuestion(tx, id);
    const simple = SIMPLE.find((each) => each.name === kind);
    if (simple !== undefined) {
      // It must not have changed: its new expiry would be lost.
      await tx.has(simple, id);
      tx.remove(simple, id);
    }
    tx.unlink(EXPIRY, name);
    removed += 1;
  }
  return removed;
}
