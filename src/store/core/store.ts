// src/store/core: the rules of all records, once for every store, over a small key-value interface.
// May import what store may.
// `kv.ts` is that interface, `transaction.ts` makes a change.

/** The store as a whole: what expired, checks. */
import { directoryStore } from './directory.js';
import { Events } from './events.js';
import { fleetStore, removeQuestion } from './fleet.js';
import type { EpochMs } from '../../util/time.js';
import type { Kv } from './kv.js';
import { endAllOf, expireSession, removeSession, removeSudo, sessionStore } from './sessions.js';
import { loginThrottleStore, signingKeyStore, usageStore } from './usage.js';
import { tokenStore } from './tokens.js';
import { pagesOf, type Transaction, Transactor, valueAt } from './transaction.js';
import { webhookStore } from './webhooks.js';
import {
  ALL_TOKENS,
  ATTEMPTS,
  CUSTOMER,
  CUSTOMERS,
  DEAD,
  deadOf,
  dueFor,
  EXPIRY,
  isDamaged,
  keyOf,
  type Kind,
  KNOWN,
  LOGOUT,
  META,
  PENDING_DELETIONS,
  QUESTION,
  QUEUE,
  RATE,
  SERVICE,
  servicesOf,
  SESSION,
  SUDO,
  TOKEN,
  TOKEN_ID,
  tokensOf,
  USER,
  usersOf,
  valueOf,
  WRITES,
} from './kinds.js';
import { mapMaybe } from '../../util/async.js';
import { type RemovableKind, StoreUnusable, UNFINISHED_RESTORE } from '../faults.js';
import { dropToken, forbid, removeById } from './token-records.js';

/**
 * A write that resolved is durable; one that threw changed nothing, unless it threw `OutcomeUnknown`.
 * A resolved revocation is seen by the next look-up of every process. A store that cannot answer throws
 * `StoreUnavailable` and never reports a record as missing. Look-ups return expired tokens, ended
 * sessions and locked owners as they are.
 */
export type Store = ReturnType<typeof coreStore>;
export type Maintenance = Store['maintenance'];

export function coreStore(kv: Kv, events = new Events()) {
  const transactor = new Transactor(kv);
  return {
    tokens: tokenStore(transactor, events),
    sessions: sessionStore(transactor),
    directory: directoryStore(transactor, events),
    loginThrottle: loginThrottleStore(transactor),
    usage: usageStore(transactor),
    signingKeys: signingKeyStore(transactor),
    fleet: fleetStore(transactor),
    webhooks: webhookStore(transactor, events),
    maintenance: maintenance(transactor, events),
  };
}

/** The earlier time of this machine and the store: what a clock that is ahead removes is lost. */
export async function removalTime(
  maintenance: Pick<Maintenance, 'clock'>,
  now: EpochMs = Date.now(),
): Promise<EpochMs> {
  return Math.min(now, await maintenance.clock());
}

const BATCH = 100;
/** Kinds of which only the record itself has to be removed when it expires. */
const SIMPLE: readonly Kind<unknown>[] = [ATTEMPTS, KNOWN, LOGOUT, RATE, WRITES];

function maintenance(transactor: Transactor, events: Events) {
  const { kv } = transactor;
  const set = async (id: string, number: number | undefined, isReserved = false): Promise<void> =>
    transactor.transact(
      async (tx) => (number === undefined ? tx.remove(META, id) : tx.put(META, id, { number })),
      { isReserved },
    );
  const isRestoring = () => mapMaybe(valueAt(kv, META, 'restoring'), (setting) => setting !== undefined);
  return {
    /**
     * Initializes a new store and checks an existing one. A replacement worker does not call it, so that
     * an emptied store is noticed. @param purpose `restore` may complete an unfinished one
     */
    initialize: async (purpose?: 'restore'): Promise<void> => {
      if (purpose !== 'restore' && (await isRestoring())) throw new StoreUnusable(UNFINISHED_RESTORE);
    },
    isRestoring,
    setRestoring: async (restoring: boolean) => set('restoring', restoring ? Date.now() : undefined),
    probe: async () => void (await valueAt(kv.urgent, META, 'probe')),
    /** Writes to a key of its own. */
    probeWrite: async () => set('probe', Date.now()),
    clock: async () => kv.clock(),
    /** Removes at most `limit` expired records; of tokens those that expired before `tokensBefore`. */
    removeExpired: async (now: EpochMs, tokensBefore: EpochMs, limit: number): Promise<number> => {
      await kv.tidy();
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
    /**
     * A session or token may be named by the beginning of its digest, a webhook by `ENDPOINT/SUBJECT`,
     * and the oldest damaged dead letter by its endpoint. Returns whether there was one.
     */
    removeDamaged: async (kind: RemovableKind, name: string) => removeDamaged(transactor, kind, name),
    /** Waits for writes in flight, then closes the store. */
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
    if (kind === TOKEN_ID.name) await removeById(tx, events, id);
    else if (kind === SUDO.name) removeSudo(tx, id);
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

type Remove = (tx: Transaction, id: string) => Promise<void>;

const KINDS: Readonly<Record<RemovableKind, readonly [Kind<unknown>, Remove]>> = {
  customer: [CUSTOMER, async (tx, id) => tx.unlink(CUSTOMERS, id)],
  service: [SERVICE, async (tx, id) => unlinkEverywhere(tx, servicesOf, id)],
  user: [USER, removeDamagedUser],
  token: [TOKEN, removeDamagedToken],
  session: [
    SESSION,
    async (tx, digest) =>
      removeSession(tx, { digest, userId: ownerOf((await tx.stored(SESSION, digest))?.ref) ?? '' }),
  ],
  webhook: [QUEUE, async (tx, id) => unlinkAtEndpoint(tx, dueFor, id)],
  dead_letter: [DEAD, async (tx, id) => unlinkAtEndpoint(tx, deadOf, id)],
};

function unlinkAtEndpoint(tx: Transaction, indexOf: (endpoint: string) => string, id: string): void {
  const at = id.indexOf('/');
  tx.unlink(indexOf(id.slice(0, at)), id.slice(at + 1));
}

async function removeDamaged(transactor: Transactor, kind: RemovableKind, name: string): Promise<boolean> {
  const [record, remove] = KINDS[kind];
  for await (const id of idsOf(transactor, kind, name)) {
    const isRemoved = await transactor.transact(
      async (tx) => {
        if (!isDamaged(record, id, await tx.stored(record, id))) return false;
        tx.remove(record, id);
        await remove(tx, id);
        return true;
      },
      { isReserved: true },
    );
    if (isRemoved) return true;
  }
  return false;
}

async function* idsOf({ kv }: Transactor, kind: RemovableKind, name: string): AsyncGenerator<string> {
  if (kind === 'token') {
    const { chain: [pointer] } = await kv.follow(keyOf(TOKEN_ID, name)); // prettier-ignore
    const digest = valueOf(TOKEN_ID, name, pointer)?.digest;
    if (digest !== undefined) yield digest;
    for await (const page of pagesOf(kv, ALL_TOKENS)) {
      const pointers = await kv.read(page.map((each) => keyOf(TOKEN_ID, each.name)));
      for (const [i, each] of page.entries()) {
        const found = valueOf(TOKEN_ID, each.name, pointers[i])?.digest;
        if (found?.startsWith(name)) yield found;
      }
    }
  } else if (kind === 'session') {
    for await (const page of pagesOf(kv, EXPIRY))
      for (const each of page)
        if (each.name.startsWith(keyOf(SESSION, name))) yield each.name.slice(SESSION.name.length + 1);
  } else if (kind === 'dead_letter') {
    for (const each of await kv.range(deadOf(name), {})) yield `${name}/${each.name}`;
  } else yield name;
}

/** Ends what a user has; the login keeps a pointer that leads nowhere. */
async function removeDamagedUser(tx: Transaction, id: string): Promise<void> {
  await endAllOf(tx, id);
  for (const { name } of await tx.range(tokensOf(id))) {
    const digest = (await tx.get(TOKEN_ID, name))?.digest;
    if (digest !== undefined) await forbidToken(tx, name, digest, id);
  }
  await unlinkEverywhere(tx, usersOf, id);
  tx.unlink(PENDING_DELETIONS, id);
}

async function unlinkEverywhere(
  tx: Transaction,
  indexOf: (customerId: string) => string,
  id: string,
): Promise<void> {
  for (const { name } of await tx.range(CUSTOMERS)) tx.unlink(indexOf(name), id);
}

async function removeDamagedToken(tx: Transaction, digest: string): Promise<void> {
  const owner = ownerOf((await tx.stored(TOKEN, digest))?.ref);
  for (const { name } of await tx.range(owner === undefined ? ALL_TOKENS : tokensOf(owner)))
    if ((await tx.get(TOKEN_ID, name))?.digest === digest) return forbidToken(tx, name, digest, owner ?? '');
}

async function forbidToken(tx: Transaction, id: string, digest: string, userId: string): Promise<void> {
  dropToken(tx, { id, digest, userId });
  tx.tell(`token:${id}`);
  forbid(tx, [`id:${id}`, digest]);
}

function ownerOf(ref: string | undefined): string | undefined {
  return ref?.slice(USER.name.length + 1);
}
