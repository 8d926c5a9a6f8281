import { parseRange } from '../domain/address-range.js';
import { parseRate } from '../domain/rate.js';
import type { ProviderLogin, Session } from '../domain/session.js';
import type { EpochMs } from '../domain/time.js';
import type { SessionUse, Token, TokenRestrictions, TokenUse } from '../domain/token.js';
import type { Customer, ProviderLink, Service, User } from '../domain/user.js';
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
const isRate: Check = (value) => typeof value === 'string' && parseRate(value) !== undefined;
const isRange: Check = (value) => typeof value === 'string' && parseRange(value) !== undefined;

function oneOf(...values: readonly unknown[]): Check {
  return (value) => values.includes(value);
}

function orNull(isValid: Check): Check {
  return (value) => value === null || isValid(value);
}

/** Only the fields that every version of a record has are required. */
function optional(isValid: Check): Check {
  return (value) => value === undefined || isValid(value);
}

/** The check of each field, so that no new one goes unchecked. */
type Fields<T> = { readonly [name in keyof T]-?: Check };

/** Returns the checks of a record's fields. */
export function checks<T>(fields: Fields<T>): FieldChecks<T> {
  return Object.entries(fields) as unknown as FieldChecks<T>;
}

/** Returns the check of a field that is itself an object. */
function objectOf(fields: Readonly<Record<string, Check>>): Check {
  const members = Object.entries(fields);
  return (value) =>
    typeof value === 'object' &&
    value !== null &&
    !Array.isArray(value) &&
    members.every(([name, isValid]) => isValid((value as Record<string, unknown>)[name]));
}

const LIMITS = {
  suspended: optional(oneOf(true)),
  rate: optional(isRate),
  addresses: optional((value) => Array.isArray(value) && value.every(isRange)),
} satisfies Fields<TokenRestrictions>;
const areKnownLimits = objectOf(LIMITS);

/** Whether all restrictions of a token are understood. Ignoring one would allow what it forbids. */
const areRestrictions: Check = (value) =>
  areKnownLimits(value) && Object.keys(value as object).every((name) => Object.hasOwn(LIMITS, name));

/**
 * The fields of each kind of record.
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
    /** Early versions also wrote `source`, which is like none. */
    lockedBy: optional(oneOf('operator', 'source')),
    deletionPending: optional(oneOf(true)),
    login: optional(isText),
    name: optional(isText),
    passwordHash: optional(orNull(isText)),
    rehashOf: optional(isText),
    otpSecret: optional(orNull(isText)),
    provider: optional(
      objectOf({
        name: isText,
        issuer: isText,
        subject: isText,
        loginAt: isTime,
      } satisfies Fields<ProviderLink>),
    ),
    createdAt: optional(isTime),
    updatedAt: optional(isTime),
  }),
  customer: checks<Customer>({ id: isText, name: isText }),
  service: checks<Service>({ id: isText, customerId: isText, name: optional(isText) }),
  token: checks<Token>({
    id: isText,
    userId: isText,
    kind: oneOf('token', 'legacy_key'),
    scopes: isTexts,
    services: isTexts,
    expiresAt: orNull(isTime),
    digest: optional(isText),
    name: optional(isText),
    serviceId: optional(orNull(isText)),
    createdAt: optional(isTime),
    updatedAt: optional(isTime),
    declared: optional(oneOf(true)),
    predecessorId: optional(isText),
    rotated: optional(
      objectOf({
        to: isText,
        atOnce: optional(oneOf(true)),
        repeated: optional(oneOf(true)),
      } satisfies Fields<NonNullable<Token['rotated']>>),
    ),
    rateId: optional(isText),
    restrictions: optional(areRestrictions),
  }),
  /** Only the use of a session has `idleEndsAt`. */
  use: checks<TokenUse & Partial<SessionUse>>({
    at: isTime,
    ip: isText,
    userAgent: optional(orNull(isText)),
    idleEndsAt: optional(isTime),
  }),
  session: checks<Session>({
    id: isText,
    digest: isText,
    userId: isText,
    endsAt: isTime,
    lastSeenAt: isTime,
    createdAt: optional(isTime),
    idleEndsAt: optional(isTime),
    ip: optional(isText),
    userAgent: optional(orNull(isText)),
    provider: optional(objectOf({ name: isText, sid: orNull(isText) } satisfies Fields<ProviderLogin>)),
  }),
  sudo: checks<{ readonly until: EpochMs }>({ until: isTime }),
  attempts: checks<AttemptCount>({
    count: isNumber,
    lastAt: isTime,
    forgetAt: isTime,
    before: optional(isTime),
  }),
} as const;
