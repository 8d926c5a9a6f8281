import type { Session } from '../domain/session.js';
import type { SigningKeys } from '../domain/signing-key.js';
import type { Token, TokenUse } from '../domain/token.js';
import { type Customer, loginKey, type Service, type User } from '../domain/user.js';
import { partsOf } from './parts.js';
import type { Changes } from './core/directory-checks.js';
import type { Store } from './core/store.js';
import { asStorable } from '../domain/limits.js';
import { RecordUnreadable } from './faults.js';
import {
  customerOf,
  encode,
  serviceOf,
  sessionOf,
  signingKeysOf,
  tokenOf,
  useOf,
  userOf,
} from './records.js';

export type StoreRecord =
  | { readonly kind: 'customer'; readonly value: Customer }
  | { readonly kind: 'service'; readonly value: Service }
  | { readonly kind: 'user'; readonly value: User; readonly otpStep: number }
  | { readonly kind: 'token'; readonly value: Token; readonly use: TokenUse | null }
  | { readonly kind: 'session'; readonly value: Session }
  | { readonly kind: 'revoked'; readonly value: string }
  | { readonly kind: 'signing_keys'; readonly value: SigningKeys };

const BATCH = 500;
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
    for (const value of await store.directory.listUsers(customer.id)) {
      const user: StoreRecord = { kind: 'user', value, otpStep: await store.usage.getOtpStep(value.id) };
      if (!isNew(user)) continue;
      yield user;
      for (const { token, use } of await store.tokens.listOfUser(value.id))
        yield { kind: 'token', value: token, use };
      for (const session of await store.sessions.listOfUser(value.id))
        yield { kind: 'session', value: session };
    }
  }
}

/** @param records checked by `RecordCheck`; existing ones stay or are overwritten by their match */
export async function writeRecords(store: Store, records: readonly StoreRecord[]): Promise<void> {
  const owners = new Map<string, User>();
  for (const record of records) if (record.kind === 'user') owners.set(record.value.id, record.value);
  // An interrupted run must not leave a revoked token without its revocation.
  for (const kind of [
    'revoked',
    'customer',
    'service',
    'user',
    'token',
    'session',
    'signing_keys',
  ] as const) {
    for (const batch of batchesOf(records.filter((record) => record.kind === kind)))
      await writeBatch(store, batch, owners);
  }
}

function batchesOf(records: readonly StoreRecord[]): StoreRecord[][] {
  const batches: StoreRecord[][] = [];
  let bytes = 0;
  for (const record of records) {
    const size = JSON.stringify(record).length;
    const last = batches.at(-1);
    if (last === undefined || last.length === BATCH || bytes + size > BATCH_BYTES) {
      batches.push([record]);
      bytes = size;
    } else {
      last.push(record);
      bytes += size;
    }
  }
  return batches;
}

async function writeBatch(
  store: Store,
  batch: readonly StoreRecord[],
  owners: ReadonlyMap<string, User>,
): Promise<void> {
  const valuesOf = <K extends StoreRecord['kind']>(kind: K) =>
    batch.filter((record): record is Extract<StoreRecord, { kind: K }> => record.kind === kind);
  const revoked = valuesOf('revoked').map(({ value }) => value);
  if (revoked.length > 0) await store.tokens.addRevokedDigests(revoked);
  const users = valuesOf('user');
  const tokens = valuesOf('token');
  const changes = {
    customers: valuesOf('customer').map(({ value }) => value),
    services: valuesOf('service').map(({ value }) => value),
    users: users.map(({ value }) => value),
    tokens: tokens.map(({ value }) => value),
  };
  const isEmpty = Object.values(changes).every((values) => values.length === 0);
  const refused = isEmpty
    ? undefined
    : await store.directory.change({ ...changes, transfer: true }, Date.now());
  if (refused !== undefined) throw new Error(`the store refused a record (${refused.reason})`);
  for (const { value, otpStep } of users) if (otpStep >= 0) await store.usage.takeOtpStep(value.id, otpStep);
  const uses = tokens.flatMap(({ value, use }) => (use === null ? [] : [[value.id, use] as const]));
  if (uses.length > 0) await store.usage.recordUses({ tokens: new Map(uses), sessions: new Map() });
  for (const { value } of valuesOf('session')) await addSession(store, value, owners);
  for (const { value } of valuesOf('signing_keys')) await replaceSigningKeys(store, value);
}

async function addSession(store: Store, session: Session, owners: ReadonlyMap<string, User>): Promise<void> {
  const owner = owners.get(session.userId);
  if (owner === undefined || typeof (await store.sessions.create(session, owner, null)) === 'string')
    throw new Error(`the user ${session.userId} was changed in the meantime; run the command again`);
}

async function replaceSigningKeys(store: Store, { keys }: SigningKeys): Promise<void> {
  const known = await store.signingKeys.get();
  if (!(await store.signingKeys.replace({ revision: (known?.revision ?? 0) + 1, keys })))
    throw new Error('the signing keys were changed in the meantime; run the command again');
}

/** Revocations stay. */
export async function removeRecords(store: Store): Promise<void> {
  for (const customer of await store.directory.listCustomers()) {
    const users = await store.directory.listUsers(customer.id);
    for (const { id } of users) {
      const tokens = await store.tokens.listOfUser(id);
      for (const some of partsOf(tokens, BATCH))
        await remove(store, { removeTokens: some.map(({ token }) => token.id) });
    }
    for (const some of partsOf(users, USERS)) await remove(store, { removeUsers: some.map(({ id }) => id) });
    const services = await store.directory.listServices(customer.id);
    await remove(store, { removeServices: services.map(({ id }) => id), removeCustomers: [customer.id] });
  }
  await store.signingKeys.remove();
}

async function remove(store: Store, changes: Changes): Promise<void> {
  const refused = await store.directory.change({ ...changes, transfer: true }, Date.now());
  if (refused !== undefined) throw new Error(`the store refused a removal (${refused.reason})`);
}

/** The same in every store. */
export function recordKey({ kind, value }: StoreRecord): string {
  if (kind === 'revoked') return `revoked ${value}`;
  if (kind === 'signing_keys') return 'signing_keys';
  return `${kind} ${value.id}`;
}

export class RecordsInvalid extends Error {}

/** Checks records before any is written: valid, none twice, and whatever one refers to exists. */
export class RecordCheck {
  readonly #names = new Set<string>();
  /** Names that must exist, each with the record that refers to it. */
  readonly #needed = new Map<string, string>();

  /** Adds a record and returns it as every store can hold it. @throws RecordsInvalid */
  add(received: unknown): StoreRecord {
    const checked = parseRecord(asStorable(received));
    for (const name of namesOf(checked)) {
      if (this.#names.has(name)) throw new RecordsInvalid(`contains the ${name} twice`);
      this.#names.add(name);
    }
    const need = needOf(checked);
    if (need !== undefined && !this.#needed.has(need)) this.#needed.set(need, namesOf(checked)[0] ?? '');
    return checked;
  }

  /** Checks the references of all records; call it after the last one. @throws RecordsInvalid */
  end(): void {
    for (const [name, by] of this.#needed)
      if (!this.#names.has(name)) throw new RecordsInvalid(`lacks the ${name}, to which the ${by} belongs`);
  }
}

/** Returns the unique names of a record; the first one identifies it in messages. */
function namesOf(record: StoreRecord): string[] {
  const { kind, value } = record;
  if (kind === 'revoked') return [`digest ${value}`];
  if (kind === 'signing_keys') return ['set of signing keys'];
  const name = `${kind} ${value.id}`;
  if (kind === 'user') return [name, `login ${loginKey(value.login)}`];
  // A revoked digest has the same name: no token may have the digest of a revoked legacy key.
  if (kind === 'token') return [name, `digest ${value.digest}`];
  return kind === 'session' ? [name, `session digest ${value.digest}`] : [name];
}

/** What it belongs to. */
function needOf({ kind, value }: StoreRecord): string | undefined {
  if (kind === 'service' || kind === 'user') return `customer ${value.customerId}`;
  return kind === 'token' || kind === 'session' ? `user ${value.userId}` : undefined;
}

const KEYS = ['id', 'digest', 'userId', 'customerId', 'login'] as const;
const MAX_KEY = 1_024;

/** @throws RecordsInvalid */
function parseRecord(given: unknown): StoreRecord {
  try {
    const checked = decodeRecord(given as StoreRecord);
    const value = checked?.kind === 'revoked' ? { id: checked.value } : checked?.value;
    const keys = KEYS.map((name) => (value as Record<string, unknown> | undefined)?.[name]);
    if (checked !== undefined && keys.every((key) => key === undefined || isKey(key))) return checked;
  } catch (error) {
    if (!(error instanceof RecordUnreadable)) throw error;
    throw new RecordsInvalid(`contains an unknown record (${describe(given)})`, { cause: error });
  }
  throw new RecordsInvalid(`contains an unknown record (${describe(given)})`);
}

function isKey(value: unknown): boolean {
  return typeof value === 'string' && value.length > 0 && value.length <= MAX_KEY;
}

const DECODERS: { readonly [K in Exclude<StoreRecord['kind'], 'revoked'>]: (stored: unknown) => object } = {
  customer: customerOf,
  service: serviceOf,
  user: userOf,
  token: tokenOf,
  session: sessionOf,
  signing_keys: signingKeysOf,
};

/** Undefined for an unknown kind, which a newer Latchkey wrote. */
function decodeRecord(record: StoreRecord | null): StoreRecord | undefined {
  if (record == null) return undefined;
  if (record.kind === 'revoked') return record;
  if (!Object.hasOwn(DECODERS, record.kind)) return undefined;
  if (record.kind === 'user' && !Number.isSafeInteger(record.otpStep)) return undefined;
  const value = DECODERS[record.kind](encode(Object(record.value) as object));
  if (record.kind !== 'token') return { ...record, value } as StoreRecord;
  const use = record.use === null ? null : useOf(encode(Object(record.use) as object));
  return { ...record, value, use } as StoreRecord;
}

function describe(given: unknown): string {
  const { kind, value } = (given ?? {}) as { kind?: unknown; value?: { id?: unknown } };
  const id = typeof value?.id === 'string' ? ` ${value.id}` : '';
  return typeof kind === 'string' ? `${kind.slice(0, 40)}${id.slice(0, 80)}` : 'without a kind';
}
