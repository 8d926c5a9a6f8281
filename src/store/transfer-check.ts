import { z } from 'zod';
import { asStorable } from '../domain/limits.js';
import { loginKey } from '../domain/user.js';
import { RecordUnreadable } from './faults.js';
import { customerOf, encode, serviceOf, sessionOf, tokenOf, userOf } from './records.js';
import type { StoreRecord } from './transfer.js';

/** The records do not form a complete store; the message names the record and the reason. */
export class RecordsInvalid extends Error {}

/**
 * The kind of a restricted token in a file. An older Latchkey refuses this kind; it would restore a
 * plain token without its restrictions.
 */
const RESTRICTED = 'restricted_token';

/** Returns a record as it is written to a file; {@link RecordCheck} reads it. */
export function toFileRecord(record: StoreRecord): object {
  const isRestricted = record.kind === 'token' && record.value.restrictions !== undefined;
  return isRestricted ? { ...record, kind: RESTRICTED } : record;
}

const key = z.string().min(1).max(1_024);
const time = z.int();
const texts = z.array(z.string());
const user = z.looseObject({
  id: key,
  customerId: key,
  login: key,
  name: z.string(),
  role: z.string(),
  passwordHash: z.string().nullable(),
  otpSecret: z.string().nullable(),
  locked: z.boolean(),
  createdAt: time,
  updatedAt: time,
});
const token = z.looseObject({
  id: key,
  digest: key,
  kind: z.enum(['token', 'legacy_key']),
  userId: key,
  name: z.string(),
  scopes: texts,
  services: texts,
  createdAt: time,
  expiresAt: time.nullable(),
});
const use = z.looseObject({ at: time, ip: z.string(), userAgent: z.string().nullable() });
const session = z.looseObject({
  digest: key,
  id: key,
  userId: key,
  createdAt: time,
  endsAt: time,
  lastSeenAt: time,
});
const signingKeys = z.looseObject({
  revision: z.int(),
  keys: z.array(z.looseObject({ kid: key, sealedKey: z.string(), signsFrom: time })),
});
const named = z.looseObject({ id: key, name: z.string() });

/** The schema of each kind. An unknown kind was written by a newer Latchkey. */
const record = z.discriminatedUnion('kind', [
  z.looseObject({ kind: z.literal('customer'), value: named }),
  z.looseObject({ kind: z.literal('service'), value: named.extend({ customerId: key }) }),
  z.looseObject({ kind: z.literal('user'), value: user, otpStep: z.int() }),
  z.looseObject({ kind: z.literal('token'), value: token, use: use.nullable() }),
  z.looseObject({ kind: z.literal(RESTRICTED), value: token, use: use.nullable() }),
  z.looseObject({ kind: z.literal('session'), value: session }),
  z.looseObject({ kind: z.literal('revoked'), value: key }),
  z.looseObject({ kind: z.literal('signing_keys'), value: signingKeys }),
]);

/**
 * Checks records, in any order, before any of them is written. Each record must be valid, none may
 * appear twice, and whatever a record refers to must exist.
 */
export class RecordCheck {
  /** The unique names of all records so far. */
  readonly #names = new Set<string>();
  /** Names that must exist, each with the record that refers to it. */
  readonly #needed = new Map<string, string>();

  /** Adds a record and returns it in the current form, as every store can hold it. @throws RecordsInvalid */
  add(received: unknown): StoreRecord {
    const given = asStorable(received);
    const read = record.safeParse(given);
    if (!read.success) throw new RecordsInvalid(`contains an unknown record (${describe(given)})`);
    const isRestricted = read.data.kind === RESTRICTED;
    const checked = parseRecord((isRestricted ? { ...read.data, kind: 'token' } : given) as StoreRecord);
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

/** @throws RecordsInvalid for token restrictions that are not understood */
function parseRecord(record: StoreRecord): StoreRecord {
  try {
    return upgradeRecord(record);
  } catch (error) {
    if (!(error instanceof RecordUnreadable)) throw error;
    throw new RecordsInvalid(`contains an unknown record (${describe(record)})`, { cause: error });
  }
}

/** Reads each value as a store does, which drops obsolete fields of older records. */
function upgradeRecord(record: StoreRecord): StoreRecord {
  switch (record.kind) {
    case 'customer':
      return { ...record, value: customerOf(encode(record.value)) };
    case 'service':
      return { ...record, value: serviceOf(encode(record.value)) };
    case 'user':
      return { ...record, value: userOf(encode(record.value)) };
    case 'token':
      return { ...record, value: tokenOf(encode(record.value)) };
    case 'session':
      return { ...record, value: sessionOf(encode(record.value)) };
    default:
      return record;
  }
}

function describe(given: unknown): string {
  const { kind, value } = (given ?? {}) as { kind?: unknown; value?: { id?: unknown } };
  const id = typeof value?.id === 'string' ? ` ${value.id}` : '';
  return typeof kind === 'string' ? `${kind.slice(0, 40)}${id.slice(0, 80)}` : 'without a kind';
}
