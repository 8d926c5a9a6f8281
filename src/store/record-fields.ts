import type { Session } from '../domain/session.js';
import type { EpochMs } from '../domain/time.js';
import type { Token, TokenUse } from '../domain/token.js';
import type { Customer, Service, User } from '../domain/user.js';
import type { AttemptCount } from './login-throttle-store.js';

/** Returns whether a field of a stored record has a value of its type. */
type Check = (value: unknown) => boolean;

/** The checks of a record's fields, by name. */
export type FieldChecks<T> = readonly (readonly [name: keyof T, isValid: Check])[];

/** The latest time that a `Date` represents, in milliseconds. */
const LATEST_TIME = 8.64e15;

export const isText: Check = (value) => typeof value === 'string';
const isTexts: Check = (value) => Array.isArray(value) && value.every(isText);
const isFlag: Check = (value) => typeof value === 'boolean';
export const isTime: Check = (value) => typeof value === 'number' && Math.abs(value) <= LATEST_TIME;
const isNumber: Check = (value) => Number.isFinite(value);
const isKind: Check = (value) => value === 'token' || value === 'legacy_key';
const isTextOrNull: Check = (value) => value === null || isText(value);
const isTimeOrNull: Check = (value) => value === null || isTime(value);

/** Only the fields that every version of a record has are required. */
function optional(isValid: Check): Check {
  return (value) => value === undefined || isValid(value);
}

/** Returns the checks of a record's fields. */
export function checks<T>(fields: { readonly [name in keyof T]?: Check }): FieldChecks<T> {
  return Object.entries(fields) as unknown as FieldChecks<T>;
}

/**
 * The fields on which decisions, headers and responses depend, of each kind of record.
 *
 * A value of another type must not reach them: a text as the expiry would never be reached, and a
 * text as the services would contain each of its parts.
 */
export const FIELDS = {
  user: checks<User>({
    id: isText,
    customerId: isText,
    role: isText,
    locked: isFlag,
    login: optional(isText),
    name: optional(isText),
    passwordHash: optional(isTextOrNull),
    otpSecret: optional(isTextOrNull),
    createdAt: optional(isTime),
    updatedAt: optional(isTime),
  }),
  customer: checks<Customer>({ id: isText, name: isText }),
  service: checks<Service>({ id: isText, customerId: isText, name: optional(isText) }),
  token: checks<Token>({
    id: isText,
    userId: isText,
    kind: isKind,
    scopes: isTexts,
    services: isTexts,
    expiresAt: isTimeOrNull,
    digest: optional(isText),
    name: optional(isText),
    serviceId: optional(isTextOrNull),
    createdAt: optional(isTime),
    updatedAt: optional(isTime),
    rateId: optional(isText),
  }),
  use: checks<TokenUse>({ at: isTime, ip: isText, userAgent: optional(isTextOrNull) }),
  session: checks<Session>({
    id: isText,
    digest: isText,
    userId: isText,
    endsAt: isTime,
    lastSeenAt: isTime,
    createdAt: optional(isTime),
    idleEndsAt: optional(isTime),
    ip: optional(isText),
    userAgent: optional(isTextOrNull),
  }),
  sudo: checks<{ readonly until: EpochMs }>({ until: isTime }),
  attempts: checks<AttemptCount>({
    count: isNumber,
    lastAt: isTime,
    forgetAt: isTime,
    before: optional(isTime),
  }),
} as const;
