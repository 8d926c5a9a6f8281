/** Restores what a networked store lost in a failover, from what this process remembers. */
import type { Token } from '../../domain/token.js';
import { isAsVerified } from '../../domain/user.js';
import type { EpochMs } from '../../util/time.js';
import type { Creation } from '../revocations.js';
import { passOverDamaged } from '../faults.js';
import type { Events } from './events.js';
import { keyOf, type Kind, REVOKED, SESSION, TOKEN, TOKEN_ID, USER } from './kinds.js';
import type { Key } from './kv.js';
import { partsOf } from '../parts.js';
import { addSession, endAllOf, removeSession } from './sessions.js';
import { addToken, isNewDigest, noteRevoked, readToken, removeToken, replaceToken } from './token-records.js';
import type { Transaction, Transactor } from './transaction.js';

/** Ends something again. Returns whether it had come back. */
type Again = (tx: Transaction, events: Events, id: string, at: EpochMs) => Promise<boolean>;

/** By the first part of a name (`revocations.ts`); of other names, nothing can come back. */
const AGAIN: Readonly<Record<string, Again>> = {
  token: async (tx, events, id) => {
    const token = await readToken(tx, id);
    if (token !== undefined) await removeToken(tx, events, token);
    return token !== undefined;
  },
  legacy: async (tx, events, digest) => {
    const token = await tx.get(TOKEN, digest);
    if (token !== undefined) await removeToken(tx, events, token);
    if (await tx.has(REVOKED, digest)) return token !== undefined;
    noteRevoked(tx, [digest]);
    return true;
  },
  ends: async (tx, events, id, at) => {
    const token = await readToken(tx, id);
    if (token === undefined || (token.expiresAt ?? Infinity) <= at) return false;
    await replaceToken(tx, events, token, { ...token, expiresAt: at });
    return true;
  },
  session: async (tx, _events, digest) => {
    const session = await tx.get(SESSION, digest);
    if (session !== undefined) removeSession(tx, session);
    return session !== undefined;
  },
  user: async (tx, _events, id, at) => lock(tx, id, at),
  operator: async (tx, _events, id, at) => lock(tx, id, at, 'operator'),
  suspended: async (tx, _events, id, at) => {
    const token = await readToken(tx, id);
    if (token === undefined || token.updatedAt >= at) return false;
    const suspended: Token = {
      ...token,
      updatedAt: at,
      restrictions: { ...token.restrictions, suspended: true },
    };
    tx.put(TOKEN, token.digest, suspended, keyOf(USER, token.userId));
    return true;
  },
};

async function lock(tx: Transaction, id: string, at: EpochMs, by?: 'operator'): Promise<boolean> {
  const user = await tx.get(USER, id);
  if (user === undefined || user.updatedAt >= at) return false;
  if (user.locked && (by === undefined || user.lockedBy === by)) return false;
  tx.put(USER, id, { ...user, locked: true, ...(by === undefined ? {} : { lockedBy: by }) });
  await endAllOf(tx, id);
  return true;
}

const RECORDS: Readonly<Record<string, Kind<unknown>>> = {
  token: TOKEN_ID,
  legacy: TOKEN,
  ends: TOKEN_ID,
  session: SESSION,
  user: USER,
  operator: USER,
  suspended: TOKEN_ID,
};
const TIMED: readonly string[] = ['ends', 'user', 'operator', 'suspended'];
const [CHECKED, APPLIED] = [500, 100];

interface Ended {
  readonly name: string;
  readonly kind: string;
  readonly id: string;
  readonly at: EpochMs;
  readonly key: Key;
}

function endedOf(name: string): Ended[] {
  const kind = name.slice(0, name.indexOf(':'));
  const record = RECORDS[kind];
  if (record === undefined) return [];
  const rest = name.slice(kind.length + 1);
  const time = TIMED.includes(kind) ? rest.slice(0, rest.indexOf(':') + 1) : '';
  const id = rest.slice(time.length);
  return [{ name, kind, id, at: Number.parseInt(time, 10) || 0, key: keyOf(record, id) }];
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
  for (const [i, { name, kind, id, at }] of due.entries()) {
    // A damaged record gives access to nobody, and must not keep the store from being used.
    const cameBack = (await AGAIN[kind]?.(tx, events, id, at).catch(passOverDamaged)) ?? false;
    if (cameBack || scores[i] === undefined) tx.tell(name);
    back += Number(cameBack);
  }
  return back;
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
      } else if (isAsVerified(user, owner)) addSession(tx, record);
      else return 'lost';
      return 'recovered';
    },
    { isReserved: true },
  );
}
