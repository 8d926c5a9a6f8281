/** Restores what a networked store lost in a failover, from what this process remembers. */
import { isAsVerified } from '../../domain/user.js';
import type { EpochMs } from '../../util/time.js';
import { type Creation, partsIn } from '../revocations.js';
import { passOverDamaged } from '../faults.js';
import type { Events } from './events.js';
import { keyOf, type Kind, REVOKED, SESSION, TOKEN, TOKEN_ID, USER } from './kinds.js';
import type { Key, Kv } from './kv.js';
import { partsOf } from '../../util/collections.js';
import { addSession, endAllOf, endSession } from './sessions.js';
import {
  addToken,
  isNewDigest,
  noteRevoked,
  readToken,
  removeById,
  removeToken,
  replaceToken,
} from './token-records.js';
import type { Transaction, Transactor } from './transaction.js';

/** Ends something again. Returns whether it had come back. */
type Again = (tx: Transaction, events: Events, id: string, at: EpochMs) => Promise<boolean>;

/** The record and the function, by the first part of a name (`revocations.ts`); nothing else can come back. */
const AGAIN: Readonly<Record<string, readonly [Kind<unknown>, Again]>> = {
  token: [TOKEN_ID, removeById],
  legacy: [
    TOKEN,
    async (tx, events, digest) => {
      const token = await tx.get(TOKEN, digest);
      if (token !== undefined) await removeToken(tx, events, token);
      if (await tx.has(REVOKED, digest)) return token !== undefined;
      noteRevoked(tx, [digest]);
      return true;
    },
  ],
  ends: [
    TOKEN_ID,
    async (tx, events, id, at) => {
      const token = await readToken(tx, id);
      if (token === undefined || (token.expiresAt ?? Infinity) <= at) return false;
      await replaceToken(tx, events, token, { ...token, expiresAt: at });
      return true;
    },
  ],
  session: [SESSION, async (tx, _events, digest) => endSession(tx, digest)],
  user: [USER, async (tx, _events, id, at) => lock(tx, id, at)],
  operator: [USER, async (tx, _events, id, at) => lock(tx, id, at, 'operator')],
  suspended: [
    TOKEN_ID,
    async (tx, _events, id, at) => {
      const token = await readToken(tx, id);
      if (token === undefined || token.updatedAt >= at) return false;
      const restrictions = { ...token.restrictions, suspended: true as const };
      tx.put(TOKEN, token.digest, { ...token, updatedAt: at, restrictions }, keyOf(USER, token.userId));
      return true;
    },
  ],
};

async function lock(tx: Transaction, id: string, at: EpochMs, by?: 'operator'): Promise<boolean> {
  const user = await tx.get(USER, id);
  if (user === undefined || user.updatedAt >= at) return false;
  if (user.locked && (by === undefined || user.lockedBy === by)) return false;
  tx.put(USER, id, { ...user, locked: true, ...(by === undefined ? {} : { lockedBy: by }) });
  await endAllOf(tx, id);
  return true;
}

const [CHECKED, APPLIED] = [500, 100];

interface Ended {
  readonly name: string;
  readonly key: Key;
  readonly again: (tx: Transaction, events: Events) => Promise<boolean>;
}

function endedOf(name: string): Ended[] {
  const { kind, at, id } = partsIn(name);
  const [record, again] = AGAIN[kind] ?? [];
  if (record === undefined || again === undefined) return [];
  return [{ name, key: keyOf(record, id), again: async (tx, events) => again(tx, events, id, at) }];
}

/**
 * Ends again what ended before, and tells all processes. Returns how many had come back.
 * @param index of what the store remembers to have ended
 */
export async function reapply(
  transactor: Transactor,
  events: Events,
  names: readonly string[],
  index: string,
): Promise<number> {
  let back = 0;
  for (const some of partsOf(names.flatMap(endedOf), CHECKED)) {
    const scores = await transactor.kv.scores(
      index,
      some.map(({ name }) => name),
    );
    const stored = await transactor.kv.read(some.map(({ key }) => key));
    const due = some.filter((_, i) => scores[i] === undefined || stored[i] !== undefined);
    for (const part of partsOf(due, APPLIED))
      back += await transactor.transact(async (tx) => endAgain(tx, events, part, index), {
        isReserved: true,
      });
  }
  return back;
}

async function endAgain(
  tx: Transaction,
  events: Events,
  due: readonly Ended[],
  index: string,
): Promise<number> {
  await tx.load(due.map(({ key }) => key));
  const scores = await tx.scores(
    index,
    due.map(({ name }) => name),
  );
  let back = 0;
  for (const [i, { name, again }] of due.entries()) {
    // A damaged record gives access to nobody, and must not keep the store from being used.
    const cameBack = (await again(tx, events).catch(passOverDamaged)) ?? false;
    if (cameBack || scores[i] === undefined) tx.tell(name);
    back += Number(cameBack);
  }
  return back;
}

/** Returns the creations whose records the store does not have. */
export async function missing(kv: Kv, creations: readonly Creation[]): Promise<Creation[]> {
  const found: Creation[] = [];
  for (const some of partsOf(creations, CHECKED)) {
    const stored = await kv.read(some.map(keyOfCreation));
    found.push(...some.filter((_, i) => stored[i] === undefined));
  }
  return found;
}

function keyOfCreation({ kind, record }: Creation): Key {
  return keyOf(kind === 'token' ? TOKEN : SESSION, record.digest);
}

type Recovery = 'there' | 'recovered' | 'lost';

/**
 * Writes a missing creation again. What ended meanwhile stays ended.
 * @param mayWrite whether nobody was told yet that it is missing
 */
export async function recover(
  transactor: Transactor,
  events: Events,
  { kind, record, owner }: Creation,
  mayWrite: boolean,
  index: string,
): Promise<Recovery> {
  return transactor.transact(
    async (tx): Promise<Recovery> => {
      if (await tx.has(kind === 'token' ? TOKEN : SESSION, record.digest)) return 'there';
      const names = [`${kind}:${kind === 'token' ? record.id : record.digest}`];
      if (kind === 'token' && record.predecessorId !== undefined) names.push(`token:${record.predecessorId}`);
      if ((await tx.scores(index, names)).some((at) => at !== undefined)) return 'there';
      const user = await tx.get(USER, owner.id).catch(passOverDamaged);
      if (!mayWrite || user?.createdAt !== owner.createdAt) return 'lost';
      if (kind === 'token') {
        if (!(await isNewDigest(tx, record.digest)) || (await tx.has(TOKEN_ID, record.id))) return 'lost';
        await addToken(tx, events, record);
      } else if (isAsVerified(user, owner)) await addSession(tx, record);
      else return 'lost';
      return 'recovered';
    },
    { isReserved: true },
  );
}
