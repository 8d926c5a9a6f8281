import { isDeepStrictEqual } from 'node:util';
import type { Session } from '../domain/session.js';
import type { Token, TokenUse } from '../domain/token.js';
import { ownerOf, type SigningKeys } from '../domain/signing-key.js';
import type { Customer, Service, User } from '../domain/user.js';
import { partsOf } from '../util/collections.js';
import type { Changes } from './core/directory-checks.js';
import type { Store } from './core/store.js';

export type StoreRecord =
  | { readonly kind: 'customer'; readonly value: Customer }
  | { readonly kind: 'service'; readonly value: Service }
  | { readonly kind: 'user'; readonly value: User; readonly otpStep: number }
  | { readonly kind: 'token'; readonly value: Token; readonly use: TokenUse | null }
  | { readonly kind: 'session'; readonly value: Session }
  | { readonly kind: 'revoked'; readonly value: string }
  | { readonly kind: 'signing_keys'; readonly value: SigningKeys };

const BATCH = 150;
const BATCH_BYTES = 256 * 1024;
/** Maximum number of users in one removal, which also removes their sessions. */
const USERS = 20;

/** Owners come before what they own. What expires within minutes is left out. */
export async function* recordsOf(store: Store): AsyncGenerator<StoreRecord> {
  for (const digest of await store.tokens.listRevokedDigests()) yield { kind: 'revoked', value: digest };
  const signingKeys = await store.signingKeys.get();
  if (signingKeys !== undefined) yield { kind: 'signing_keys', value: signingKeys };
  const seen = new Set<string>();
  // A user may move to a customer that was already read, so repeat until nothing new is found.
  for (let known = -1; known < seen.size;) {
    known = seen.size;
    yield* ownedRecordsOf(store, seen);
  }
}

/** @param seen keys of records to leave out; those of yielded records are added */
async function* ownedRecordsOf(store: Store, seen: Set<string>): AsyncGenerator<StoreRecord> {
  const isNew = (record: StoreRecord): boolean => {
    const { size } = seen;
    return seen.add(recordKey(record)).size > size;
  };
  for (const customer of await store.directory.listCustomers()) {
    const record: StoreRecord = { kind: 'customer', value: customer };
    if (isNew(record)) yield record;
    for (const value of await store.directory.listServices(customer.id)) {
      const service: StoreRecord = { kind: 'service', value };
      if (isNew(service)) yield service;
    }
    for await (const page of store.directory.pagesOfUsers(customer.id)) {
      for (const value of page) {
        const user: StoreRecord = { kind: 'user', value, otpStep: await store.usage.getOtpStep(value.id) };
        if (!isNew(user)) continue;
        yield user;
        for await (const tokens of store.tokens.pagesOfUser(value.id)) {
          for (const { token, use } of tokens) yield { kind: 'token', value: token, use };
        }
        for (const session of await store.sessions.listOfUser(value.id))
          yield { kind: 'session', value: session };
      }
    }
  }
}

type Records = AsyncIterable<StoreRecord> | Iterable<StoreRecord>;

/** @param records checked by `RecordCheck`; they overwrite their match. Returns how many there were */
export async function writeRecords(store: Store, records: Records): Promise<number> {
  let count = 0;
  for await (const batch of batchesOf(records)) {
    await writeBatch(store, batch);
    count += batch.length;
  }
  return count;
}

async function* batchesOf(records: Records): AsyncGenerator<StoreRecord[]> {
  let batch: StoreRecord[] = [];
  let bytes = 0;
  for await (const record of records) {
    bytes += JSON.stringify(record).length;
    if (batch.length === BATCH || (bytes > BATCH_BYTES && batch.length > 0)) {
      yield batch;
      [batch, bytes] = [[], JSON.stringify(record).length];
    }
    batch.push(record);
  }
  if (batch.length > 0) yield batch;
}

async function writeBatch(store: Store, batch: readonly StoreRecord[]): Promise<void> {
  const valuesOf = <K extends StoreRecord['kind']>(kind: K) =>
    batch.filter((record): record is Extract<StoreRecord, { kind: K }> => record.kind === kind);
  // First: an interrupted run must not leave a revoked token without its revocation.
  const revoked = valuesOf('revoked').map(({ value }) => value);
  if (revoked.length > 0) await store.tokens.addRevokedDigests(revoked);
  const users = valuesOf('user');
  const tokens = valuesOf('token');
  const otpSteps = new Map(users.map(({ value, otpStep }) => [value.id, otpStep]));
  const uses = new Map(tokens.map(({ value, use }) => [value.id, use]));
  await change(store, {
    customers: valuesOf('customer').map(({ value }) => value),
    services: valuesOf('service').map(({ value }) => value),
    users: users.map(({ value }) => value),
    tokens: tokens.map(({ value }) => value),
    transfer: { uses, otpSteps },
  });
  for (const { value } of valuesOf('session')) await addSession(store, value);
  for (const { value } of valuesOf('signing_keys')) await replaceSigningKeys(store, value);
}

async function change(store: Store, changes: Changes): Promise<void> {
  if (!Object.values(changes).some((values) => Array.isArray(values) && values.length > 0)) return;
  const refused = await store.directory.change({ transfer: {}, ...changes }, Date.now());
  if (refused !== undefined) throw new Error(`the store refused a change (${refused.reason})`);
}

async function addSession(store: Store, session: Session): Promise<void> {
  const owner = await store.directory.getUser(session.userId);
  if (owner === undefined || typeof (await store.sessions.create(session, owner, null)) === 'string')
    throw new Error(`the user ${session.userId} was changed in the meantime; run the command again`);
}

async function replaceSigningKeys(store: Store, { keys }: SigningKeys): Promise<void> {
  const known = await store.signingKeys.get();
  if (!(await store.signingKeys.replace({ revision: (known?.revision ?? 0) + 1, keys })))
    throw new Error('the signing keys were changed in the meantime; run the command again');
}

type Find = (batch: readonly StoreRecord[]) => Promise<readonly (StoreRecord | undefined)[]>;

/** Revocations stay. */
export async function removeRecords(store: Store): Promise<void> {
  await removeOwners(store, await removeOwned(store, async () => []));
}

type Gone = Readonly<Record<'user' | 'service' | 'customer', Set<string>>>;

/**
 * Removes what `find` does not find elsewhere, but for revocations. Returns the ids, also of services
 * and customers, which may still be in use.
 */
async function removeOwned(store: Store, find: Find, onGone?: (record: StoreRecord) => void): Promise<Gone> {
  const gone: Gone = { user: new Set(), service: new Set(), customer: new Set() };
  for await (const batch of batchesOf(recordsOf(store))) {
    const found = await find(batch);
    const tokens: string[] = [];
    for (const [i, record] of batch.entries()) {
      if (record.kind === 'revoked' || found[i] !== undefined) continue;
      onGone?.(record);
      if (record.kind === 'signing_keys') await store.signingKeys.remove();
      else if (record.kind === 'token') tokens.push(record.value.id);
      else if (record.kind !== 'session') gone[record.kind].add(record.value.id);
      // Those of a removed user end with him, which is not remembered.
      else if (!gone.user.has(record.value.userId)) await store.sessions.end(record.value.digest);
    }
    await change(store, { removeTokens: tokens });
  }
  for (const some of partsOf([...gone.user], USERS)) await change(store, { removeUsers: some });
  return gone;
}

async function removeOwners(store: Store, { service, customer }: Gone): Promise<void> {
  for (const some of partsOf([...service], BATCH)) await change(store, { removeServices: some });
  for (const some of partsOf([...customer], BATCH)) await change(store, { removeCustomers: some });
}

/** Finds records by key, each in the place of its match. */
async function findIn(store: Store, batch: readonly StoreRecord[]): Promise<(StoreRecord | undefined)[]> {
  const ids = batch.flatMap((record) => (record.kind === 'token' ? record.value.id : []));
  const tokens = new Map((await store.tokens.listByIds(ids)).map((each) => [each.token.id, each]));
  return Promise.all(
    batch.map(async (record): Promise<StoreRecord | undefined> => {
      if (record.kind === 'user') return findUser(store, record.value.id);
      const token = record.kind === 'token' ? tokens.get(record.value.id) : undefined;
      if (token !== undefined) return { kind: 'token', value: token.token, use: token.use };
      const value = await valueIn(store, record);
      return value === undefined ? undefined : ({ kind: record.kind, value } as StoreRecord);
    }),
  );
}

async function findUser(store: Store, id: string): Promise<StoreRecord | undefined> {
  const value = await store.directory.getUser(id);
  return value && { kind: 'user', value, otpStep: await store.usage.getOtpStep(id) };
}

async function valueIn(store: Store, { kind, value }: StoreRecord): Promise<unknown> {
  switch (kind) {
    case 'revoked':
      return (await store.tokens.filterRevoked([value]))[0];
    case 'signing_keys':
      return store.signingKeys.get();
    case 'customer':
      return store.directory.getCustomer(value.id);
    case 'service':
      return store.directory.getService(value.id);
    case 'session':
      return (await store.sessions.find(value.digest))?.session;
    default:
      return undefined;
  }
}

interface Side {
  readonly store: Store;
  readonly sealer: {
    seal(plain: string, owner: string): string;
    open(sealed: string, owner: string): string;
  };
}

/**
 * Brings a store to the records of another one. @param records all of the source, checked by `RecordCheck`
 * @param differs called for differences other than by traffic or by more revocations in the target
 */
export async function synchronize(
  source: Side,
  target: Side,
  records: Records,
  differs: (record: StoreRecord) => void,
): Promise<void> {
  const gone = await removeOwned(target.store, async (batch) => findIn(source.store, batch), differs);
  for await (const batch of batchesOf(records)) {
    const found = await findIn(target.store, batch);
    const changed = batch.filter((record, i) => {
      const now = withSecrets(record, (...sealed) => source.sealer.open(...sealed));
      const before = found[i] && withSecrets(found[i], (...sealed) => target.sealer.open(...sealed));
      if (isSame(now, before)) return false;
      if (before === undefined || !isSame(essence(now), essence(before))) differs(record);
      return true;
    });
    const reseal: Change = (sealed, owner) => target.sealer.seal(source.sealer.open(sealed, owner), owner);
    await writeBatch(
      target.store,
      changed.map((record) => withSecrets(record, reseal)),
    );
  }
  await removeOwners(target.store, gone);
}

type Change = (secret: string, owner: string) => string;

/** Each store has its own sealing key. */
export function withSecrets(record: StoreRecord, change: Change): StoreRecord {
  if (record.kind === 'signing_keys') {
    const keys = record.value.keys.map((key) => ({ ...key, sealedKey: change(key.sealedKey, ownerOf(key)) }));
    return { ...record, value: { ...record.value, keys } };
  }
  if (record.kind !== 'user' || record.value.otpSecret === null) return record;
  const { id, otpSecret } = record.value;
  return { ...record, value: { ...record.value, otpSecret: change(otpSecret, id) } };
}

function isSame(a: unknown, b: unknown): boolean {
  // One store keeps a field without a value, another one omits it.
  return b !== undefined && isDeepStrictEqual(JSON.parse(JSON.stringify(a)), JSON.parse(JSON.stringify(b)));
}

/** A record without what traffic keeps updating. */
function essence(record: StoreRecord): unknown {
  switch (record.kind) {
    case 'signing_keys':
      return record.value.keys;
    case 'session':
      return { ...record.value, lastSeenAt: 0, idleEndsAt: 0, ip: '', userAgent: null };
    default:
      return record.value;
  }
}

/** The same in every store. */
export function recordKey({ kind, value }: StoreRecord): string {
  if (kind === 'revoked') return `revoked ${value}`;
  if (kind === 'signing_keys') return 'signing_keys';
  return `${kind} ${value.id}`;
}
