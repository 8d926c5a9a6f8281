import { parseRange } from '../util/addresses.js';
import {
  parseRate,
  type SessionUse,
  type Token,
  type TokenRestrictions,
  type TokenUse,
} from '../domain/token.js';
import type { ProviderLogin, Session } from '../domain/session.js';
import type { SigningKey, SigningKeys } from '../domain/signing-key.js';
import type { EpochMs } from '../util/time.js';
import type { Customer, ProviderLink, Service, User } from '../domain/user.js';
import type { StoredWebhookEvent } from '../domain/webhook.js';
import { RecordNewer, RecordUnreadable } from './faults.js';

/** The record version that this Latchkey writes, and the newest that it reads. */
export const RECORD_VERSION = 1;

export type Stored<T> = T & { readonly v: number };

/** Tags a value with the record version. Undefined members are omitted, as they are when read back. */
export function encode<T extends object>(value: T): Stored<T> {
  const stored: Record<string, unknown> = { ...value, v: RECORD_VERSION };
  for (const name of Object.keys(stored)) if (stored[name] === undefined) delete stored[name];
  return stored as Stored<T>;
}

/** A process that serves requests. The workers of a sidecar share its `sidecar`. */
export interface Member {
  readonly id: string;
  readonly sidecar: string;
  /** Host and port, like `pod-1:8080`. */
  readonly name: string;
  readonly pid: number;
  readonly version: string;
  readonly configHash: string;
  readonly startedAt: EpochMs;
  /** Milliseconds since its notification link was last confirmed; null with the embedded store. */
  readonly linkAge: number | null;
}

export interface AttemptCount {
  readonly count: number;
  readonly lastAt: EpochMs;
  /** Time of the previous attempt; the wait counts from it when the latest attempt is released. */
  readonly before: EpochMs;
  readonly forgetAt: EpochMs;
}

export interface DeadWebhook {
  readonly event: StoredWebhookEvent;
  readonly attempts: number;
  readonly failedAt: EpochMs;
  readonly error: string;
}

/** What is counted of an endpoint. */
export interface EndpointCounts {
  readonly queued: number;
  /** Number of events, and of dead letters, dropped because their queue was full. */
  readonly dropped: number;
  readonly deadDropped: number;
  readonly disabledAt: EpochMs | null;
  readonly lastSuccessAt: EpochMs | null;
  readonly lastFailureAt: EpochMs | null;
  readonly lastError: string | null;
}

type Check = (value: unknown) => boolean;

/** The check of each field, so that no new one goes unchecked. */
type Fields<T> = { readonly [name in keyof T]-?: Check };

/** The latest time that a `Date` represents, in milliseconds. */
const LATEST_TIME = 8.64e15;

export const isText: Check = (value) => typeof value === 'string';
const isTexts: Check = (value) => Array.isArray(value) && value.every(isText);
const isFlag: Check = (value) => typeof value === 'boolean';
export const isTime: Check = (value) => typeof value === 'number' && Math.abs(value) <= LATEST_TIME;
const isNumber: Check = (value) => Number.isFinite(value);
const isRate: Check = (value) => typeof value === 'string' && parseRate(value) !== undefined;
const isRange: Check = (value) => typeof value === 'string' && parseRange(value) !== undefined;

function oneOf(...values: readonly unknown[]): Check {
  return (value) => values.includes(value);
}

function orNull(isValid: Check): Check {
  return (value) => value === null || isValid(value);
}

function optional(isValid: Check): Check {
  return (value) => value === undefined || isValid(value);
}

export function listOf(isValid: Check): Check {
  return (value) => Array.isArray(value) && value.every(isValid);
}

export function objectOf<T>(fields: Fields<T>): Check {
  const members = Object.entries<Check>(fields);
  return (value) =>
    typeof value === 'object' &&
    value !== null &&
    !Array.isArray(value) &&
    members.every(([name, isValid]) => isValid((value as Record<string, unknown>)[name]));
}

/** @throws RecordUnreadable, RecordNewer */
type Decoder<T> = (stored: unknown) => T;

/** A value of another type must not reach its fields: a text as the expiry would never be reached. */
export function decoder<T extends object>(kind: string, fields: Fields<T>): Decoder<T> {
  const members = Object.entries<Check>(fields) as unknown as readonly (readonly [keyof T, Check])[];
  return (stored) => {
    if (typeof stored !== 'object' || stored === null) throw damaged(kind);
    const { v, ...value } = stored as Stored<T>;
    if (typeof v !== 'number') throw damaged(kind);
    if (v > RECORD_VERSION) {
      throw new RecordNewer(`a ${kind} record has version ${v}; this Latchkey reads up to ${RECORD_VERSION}`);
    }
    const record = value as unknown as T;
    for (const [name, isValid] of members) if (!isValid(record[name])) throw damaged(kind);
    return record;
  };
}

const LIMITS = {
  suspended: optional(oneOf(true)),
  rate: optional(isRate),
  addresses: optional(listOf(isRange)),
} satisfies Fields<TokenRestrictions>;
const areKnownLimits = objectOf<TokenRestrictions>(LIMITS);

/** Whether all restrictions of a token are understood. Ignoring one would allow what it forbids. */
const areRestrictions: Check = (value) =>
  areKnownLimits(value) && Object.keys(value as object).every((name) => Object.hasOwn(LIMITS, name));

export const userOf = decoder<User>('user', {
  id: isText,
  customerId: isText,
  role: isText,
  locked: isFlag,
  lockedBy: optional(oneOf('operator')),
  deletionPending: optional(oneOf(true)),
  login: isText,
  name: isText,
  passwordHash: orNull(isText),
  rehashOf: optional(isText),
  otpSecret: orNull(isText),
  provider: optional(
    objectOf<ProviderLink>({ name: isText, issuer: isText, subject: isText, loginAt: isTime }),
  ),
  createdAt: isTime,
  updatedAt: isTime,
});

export const customerOf = decoder<Customer>('customer', { id: isText, name: isText });

export const serviceOf = decoder<Service>('service', { id: isText, customerId: isText, name: isText });

export const tokenOf = decoder<Token>('token', {
  id: isText,
  userId: isText,
  kind: oneOf('token', 'legacy_key'),
  scopes: isTexts,
  services: isTexts,
  expiresAt: orNull(isTime),
  digest: isText,
  name: isText,
  serviceId: orNull(isText),
  createdAt: isTime,
  updatedAt: isTime,
  declared: optional(oneOf(true)),
  predecessorId: optional(isText),
  rotated: optional(
    objectOf<NonNullable<Token['rotated']>>({
      to: isText,
      atOnce: optional(oneOf(true)),
      repeated: optional(oneOf(true)),
    }),
  ),
  rateId: optional(isText),
  restrictions: optional(areRestrictions),
});

const USE = { at: isTime, ip: isText, userAgent: orNull(isText) } satisfies Fields<TokenUse>;
export const useOf = decoder<TokenUse>('use', USE);
export const sessionUseOf = decoder<SessionUse>('session use', { ...USE, idleEndsAt: isTime });

const areTexts: Check = (value) => objectOf({})(value) && Object.values(value as object).every(isText);

export const sessionOf = decoder<Session>('session', {
  id: isText,
  digest: isText,
  userId: isText,
  endsAt: isTime,
  lastSeenAt: isTime,
  createdAt: isTime,
  idleEndsAt: isTime,
  ip: isText,
  userAgent: orNull(isText),
  provider: optional(
    objectOf<ProviderLogin>({
      name: isText,
      sid: orNull(isText),
      idToken: optional(isText),
      claims: optional(areTexts),
    }),
  ),
});

export const sudoOf = decoder<{ readonly until: EpochMs }>('sudo', { until: isTime });

export const attemptsOf = decoder<AttemptCount>('login failure', {
  count: isNumber,
  lastAt: isTime,
  forgetAt: isTime,
  before: isTime,
});

export const signingKeysOf = decoder<SigningKeys>('signing key', {
  revision: Number.isSafeInteger,
  keys: listOf(
    objectOf<SigningKey>({
      kid: isText,
      algorithm: oneOf('EdDSA', 'ES256'),
      sealedKey: isText,
      signsFrom: Number.isSafeInteger,
    }),
  ),
});

function damaged(kind: string): RecordUnreadable {
  return new RecordUnreadable(`a ${kind} record is damaged`);
}

/** The kinds of records that `latchkey store remove` removes. */
export const REMOVABLE = [
  'customer',
  'service',
  'user',
  'token',
  'session',
  'webhook',
  'dead_letter',
] as const;
export type RemovableKind = (typeof REMOVABLE)[number];

/** The number of characters by which a digest is named. */
export const DIGEST_PART = 8;
