import { randomInt } from 'node:crypto';
import type { Database } from 'lmdb';

const STORE_ID = 'store_id';
const LIMIT = 2 ** 47;

/** The number that tells a store and its copies from other stores; undefined when it has none yet. */
export function storeId({
  meta,
}: {
  readonly meta: Database<number, string | Uint8Array>;
}): number | undefined {
  return meta.get(STORE_ID);
}

/** Gives a store its number, inside a transaction. */
export function putStoreId({ meta }: { readonly meta: Database<number, string | Uint8Array> }): void {
  meta.putSync(STORE_ID, randomInt(1, LIMIT));
}
