import type { Session } from '../domain/session.js';
import type { SigningKey, SigningKeys } from '../domain/signing-key.js';
import type { EpochMs } from '../domain/time.js';
import type { SessionUse, Token, TokenUse } from '../domain/token.js';
import type { Customer, Service, User } from '../domain/user.js';
import { RecordDamaged, RecordUnreadable } from './faults.js';
import { type FieldChecks, FIELDS } from './record-fields.js';

/** The newest record version that this Latchkey reads. */
export const RECORD_VERSION = 2;

/**
 * Fields that a reader must not ignore, each with the record version that introduced it.
 * A record without any of them keeps version 1, so an older Latchkey refuses only
 * records that it would misread.
 */
const FIELD_VERSIONS: readonly (readonly [name: string, version: number])[] = [
  ['declared', 2],
  ['predecessorId', 2],
  ['rotated', 2],
  ['rateId', 2],
  ['restrictions', 2],
];

/** A stored record: a domain value and its record version. */
export type Stored<T> = T & { readonly v: number };

/**
 * Tags a value with its record version. Versioned fields that are undefined are
 * omitted, as they are when read back.
 */
export function encode<T extends object>(value: T): Stored<T> {
  const stored: Record<string, unknown> & { v: number } = { ...value, v: 1 };
  for (const [name, since] of FIELD_VERSIONS) {
    if (stored[name] === undefined) delete stored[name];
    else stored.v = Math.max(stored.v, since);
  }
  return stored as Stored<T>;
}

/**
 * Returns the value of a stored record.
 *
 * @param fields the checks of its fields; one that fails means damage
 * @throws RecordUnreadable for a damaged or newer record, which is never treated as missing
 */
export function decode<T extends object>(kind: string, stored: unknown, fields: FieldChecks<T>): T {
  if (typeof stored !== 'object' || stored === null) throw damaged(kind);
  const { v, ...value } = stored as Stored<T>;
  if (typeof v !== 'number') throw damaged(kind);
  if (v > RECORD_VERSION) {
    throw new RecordUnreadable(
      `a ${kind} record has version ${v}; this Latchkey reads up to ${RECORD_VERSION}`,
    );
  }
  const record = value as unknown as T;
  for (const [name, isValid] of fields) if (!isValid(record[name])) throw damaged(kind);
  return record;
}

/** Returns the value of a stored record of one kind. @throws RecordUnreadable as {@link decode} */
export const userOf = (stored: unknown): User => decode<User>('user', stored, FIELDS.user);
export const customerOf = (stored: unknown): Customer =>
  decode<Customer>('customer', stored, FIELDS.customer);
export const serviceOf = (stored: unknown): Service => decode<Service>('service', stored, FIELDS.service);
export const tokenOf = (stored: unknown): Token =>
  withoutCustomer(decode<Token>('token', stored, FIELDS.token));
export const useOf = (stored: unknown): TokenUse & Partial<SessionUse> =>
  decode<TokenUse & Partial<SessionUse>>('use', stored, FIELDS.use);
export const sessionOf = (stored: unknown): Session =>
  withoutCustomer(decode<Session>('session', stored, FIELDS.session));

/**
 * Drops the customer named in older records: the owner's customer counts, and it may have changed.
 */
function withoutCustomer<T extends object>(value: T & { readonly customerId?: unknown }): T {
  if (!('customerId' in value)) return value;
  const { customerId: _, ...rest } = value;
  return rest as unknown as T;
}

/** Returns when the sudo grant expires. @throws RecordUnreadable as {@link decode} */
export function sudoOf(stored: unknown): { readonly until: EpochMs } {
  return decode<{ until: EpochMs }>('sudo', stored, FIELDS.sudo);
}

/** Returns the signing keys, after checking each one. @throws RecordUnreadable as {@link decode} */
export function signingKeysOf(stored: unknown): SigningKeys {
  const { revision, keys } = decode<SigningKeys>('signing key', stored, []);
  if (!Number.isSafeInteger(revision) || !Array.isArray(keys) || !keys.every(isSigningKey))
    throw damaged('signing key');
  return { revision, keys };
}

function isSigningKey(value: unknown): value is SigningKey {
  if (typeof value !== 'object' || value === null) return false;
  const { kid, algorithm, sealedKey, signsFrom } = value as Partial<SigningKey>;
  return (
    typeof kid === 'string' &&
    (algorithm === 'EdDSA' || algorithm === 'ES256') &&
    typeof sealedKey === 'string' &&
    Number.isSafeInteger(signsFrom)
  );
}

/** Creates the error for a damaged record. */
export function damaged(kind: string): RecordUnreadable {
  return new RecordDamaged(`a ${kind} record is damaged`);
}

/** What removes a damaged record, by kind. */
const REMEDIES = {
  token: (id: string) => `"latchkey token revoke ${id}" removes it`,
  user: (id: string) => `"latchkey user delete ${id}" removes it`,
  session: () => '"latchkey session revoke --user LOGIN" removes it',
  customer: applied,
  service: applied,
};

function applied(): string {
  return '"latchkey apply" writes it again if the directory file declares it';
}

/** Reads a record, and names it in the error if that fails. */
export function naming<T>(kind: keyof typeof REMEDIES, id: string, read: () => T): T {
  try {
    return read();
  } catch (error) {
    if (!(error instanceof RecordUnreadable)) throw error;
    const options = { id, cause: error };
    // The id of a session is a digest, of which the beginning is enough.
    const named = `${kind} ${kind === 'session' ? id.slice(0, 8) : id}`;
    if (!(error instanceof RecordDamaged)) throw new RecordUnreadable(`${error.message} (${named})`, options);
    throw new RecordDamaged(`${error.message} (${named}; ${REMEDIES[kind](id)})`, options);
  }
}
