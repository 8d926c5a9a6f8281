/** Removes records that cannot be read, with what is known of them. */
import type { RemovableKind } from '../records.js';
import {
  ALL_TOKENS,
  CUSTOMERS,
  deadOf,
  dueFor,
  EXPIRY,
  PENDING_DELETIONS,
  servicesOf,
  tokensOf,
  usersOf,
} from './indexes.js';
import {
  CUSTOMER,
  DEAD,
  isDamaged,
  type Kind,
  keyOf,
  QUEUE,
  SERVICE,
  SESSION,
  TOKEN,
  TOKEN_ID,
  USER,
  valueOf,
} from './kinds.js';
import { endAllOf, removeSession } from './sessions.js';
import { dropToken, forbid } from './token-records.js';
import { pagesOf, type Transaction, type Transactor } from './transaction.js';

type Remove = (tx: Transaction, id: string) => Promise<void>;

const KINDS: Readonly<Record<RemovableKind, readonly [Kind<unknown>, Remove]>> = {
  customer: [CUSTOMER, async (tx, id) => tx.unlink(CUSTOMERS, id)],
  service: [SERVICE, async (tx, id) => unlinkEverywhere(tx, servicesOf, id)],
  user: [USER, removeUser],
  token: [TOKEN, removeToken],
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

export async function removeDamaged(
  transactor: Transactor,
  kind: RemovableKind,
  name: string,
): Promise<boolean> {
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
async function removeUser(tx: Transaction, id: string): Promise<void> {
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

async function removeToken(tx: Transaction, digest: string): Promise<void> {
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
