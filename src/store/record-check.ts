import { asStorable } from '../domain/limits.js';
import { loginKey } from '../domain/user.js';
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
