import { asStorable } from '../domain/limits.js';
import { loginKey } from '../domain/user.js';
import { unlessDamaged } from './faults.js';
import {
  CUSTOMER,
  encode,
  id,
  type Kind,
  SERVICE,
  SESSION,
  SIGNING_KEYS,
  TOKEN,
  USE,
  USER,
} from './core/kinds.js';
import { recordKey, type StoreRecord } from './transfer.js';

export class RecordsInvalid extends Error {}

/** Checks records: each valid, its owner before it, and no name of the directory twice. */
export class RecordCheck {
  readonly #names = new Set<string>();

  /** Returns a record as every store can hold it. @throws RecordsInvalid */
  add(received: unknown): StoreRecord {
    const checked = parseRecord(asStorable(received));
    const need = needOf(checked);
    if (need !== undefined && !this.#names.has(need))
      throw new RecordsInvalid(`lacks the ${need}, to which the ${recordKey(checked)} belongs`);
    for (const name of namesOf(checked)) {
      if (this.#names.has(name)) throw new RecordsInvalid(`contains the ${name} twice`);
      this.#names.add(name);
    }
    return checked;
  }
}

/** Returns what is unique and has others that belong to it, or could be taken by others. */
function namesOf(record: StoreRecord): string[] {
  const { kind } = record;
  // There may be millions, and the later one overwrites the other.
  if (kind === 'token' || kind === 'session' || kind === 'revoked') return [];
  return kind === 'user' ? [recordKey(record), `login ${loginKey(record.value.login)}`] : [recordKey(record)];
}

/** What it belongs to. */
function needOf({ kind, value }: StoreRecord): string | undefined {
  if (kind === 'service' || kind === 'user') return `customer ${value.customerId}`;
  return kind === 'token' || kind === 'session' ? `user ${value.userId}` : undefined;
}

/** @throws RecordsInvalid */
function parseRecord(given: unknown): StoreRecord {
  const record = unlessDamaged(() => decodeRecord(Object(given) as StoreRecord));
  if (record === undefined) throw new RecordsInvalid(`contains an unknown record (${describe(given)})`);
  return record;
}

const KINDS: { readonly [K in Exclude<StoreRecord['kind'], 'revoked'>]: Kind<object> } = {
  customer: CUSTOMER,
  service: SERVICE,
  user: USER,
  token: TOKEN,
  session: SESSION,
  signing_keys: SIGNING_KEYS,
};

/** Undefined: of an unknown kind, which a newer Latchkey wrote. @throws RecordUnreadable */
function decodeRecord(record: StoreRecord): StoreRecord | undefined {
  const { kind } = record;
  if (kind === 'revoked') return id.safeParse(record.value).success ? record : undefined;
  if (!Object.hasOwn(KINDS, kind)) return undefined;
  if (kind === 'user' && !Number.isSafeInteger(record.otpStep)) return undefined;
  const value = decoded(KINDS[kind], record.value);
  if (kind !== 'token') return { ...record, value } as StoreRecord;
  const use = record.use === null ? null : decoded(USE, record.use);
  return { ...record, value, use } as StoreRecord;
}

function decoded<T>(kind: Kind<T>, value: unknown): T {
  return kind.decode(encode(Object(value) as object));
}

function describe(given: unknown): string {
  const { kind, value } = (given ?? {}) as { kind?: unknown; value?: { id?: unknown } };
  const id = typeof value?.id === 'string' ? ` ${value.id}` : '';
  return typeof kind === 'string' ? `${kind.slice(0, 40)}${id.slice(0, 80)}` : 'without a kind';
}
