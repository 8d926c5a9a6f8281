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
import type { StoreRecord } from './transfer.js';

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
    for (const name of needsOf(checked))
      if (!this.#needed.has(name)) this.#needed.set(name, namesOf(checked)[0] ?? '');
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
  switch (record.kind) {
    case 'user':
      return [`user ${record.value.id}`, `login ${loginKey(record.value.login)}`];
    case 'token':
      // A revoked digest has the same name: no token may have the digest of a revoked legacy key.
      return [`token ${record.value.id}`, `digest ${record.value.digest}`];
    case 'session':
      return [`session ${record.value.id}`, `session digest ${record.value.digest}`];
    case 'revoked':
      return [`digest ${record.value}`];
    case 'signing_keys':
      return ['set of signing keys'];
    default:
      return [`${record.kind} ${record.value.id}`];
  }
}

function needsOf(record: StoreRecord): string[] {
  switch (record.kind) {
    case 'service':
    case 'user':
      return [`customer ${record.value.customerId}`];
    case 'token':
    case 'session':
      return [`user ${record.value.userId}`];
    default:
      return [];
  }
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

/** Undefined for an unknown kind, which a newer Latchkey wrote. */
function decodeRecord(record: StoreRecord | null): StoreRecord | undefined {
  switch (record?.kind) {
    case 'customer':
      return { ...record, value: customerOf(stored(record)) };
    case 'service':
      return { ...record, value: serviceOf(stored(record)) };
    case 'user':
      return Number.isSafeInteger(record.otpStep) ? { ...record, value: userOf(stored(record)) } : undefined;
    case 'token': {
      const use = record.use === null ? null : useOf(encode(Object(record.use) as object));
      return { ...record, value: tokenOf(stored(record)), use };
    }
    case 'session':
      return { ...record, value: sessionOf(stored(record)) };
    case 'signing_keys':
      return { ...record, value: signingKeysOf(stored(record)) };
    case 'revoked':
      return record;
    default:
      return undefined;
  }
}

function stored({ value }: StoreRecord): object {
  return encode(Object(value) as object);
}

function describe(given: unknown): string {
  const { kind, value } = (given ?? {}) as { kind?: unknown; value?: { id?: unknown } };
  const id = typeof value?.id === 'string' ? ` ${value.id}` : '';
  return typeof kind === 'string' ? `${kind.slice(0, 40)}${id.slice(0, 80)}` : 'without a kind';
}
