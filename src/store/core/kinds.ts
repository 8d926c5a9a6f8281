/** The kinds of records: the prefix of their keys, and how their values are checked. */
import { z } from 'zod';
import type { Session } from '../../domain/session.js';
import type { SigningKeys } from '../../domain/signing-key.js';
import { parseRate, type SessionUse, type Token, type TokenUse } from '../../domain/token.js';
import type { Customer, Service, User } from '../../domain/user.js';
import { payloadOf, type StoredWebhookEvent } from '../../domain/webhook.js';
import { parseRange } from '../../util/addresses.js';
import { RecordNewer, RecordUnreadable, type RemovableKind, unlessDamaged } from '../faults.js';
import type { Key, Stored } from './kv.js';

/** Names of indexes. Scores are 0 unless the comment says otherwise. */

/** Everything that expires, by `KIND:ID`, with the time. */
export const EXPIRY = 'expiry';
export const NEVER = Number.MAX_SAFE_INTEGER;

/** Ids of all tokens, and of those of a user, with their expiry. */
export const ALL_TOKENS = 'tokens';
export const tokensOf = (userId: string) => `tokens:${userId}`;
/** Ids of tokens that a rotation created, in the order of ids: a family stands together. */
export const SUCCESSORS = 'successors';
export const DECLARED = 'declared';
export const LEGACY_KEYS = 'legacy_keys';
export const REVOKED_NAMES = 'revoked';
/** Ids of rotated tokens whose end was not reported, with the end of their overlap. */
export const OVERLAPS = 'overlaps';

export const sessionsOf = (userId: string) => `sessions:${userId}`;
/** Ids of the credentials of a user that have sudo, with its end. */
export const sudosOf = (userId: string) => `sudos:${userId}`;

export const CUSTOMERS = 'customers';
export const PENDING_DELETIONS = 'pending_deletions';
export const servicesOf = (customerId: string) => `services:${customerId}`;
export const usersOf = (customerId: string) => `users:${customerId}`;

export const ENDPOINTS = 'endpoints';
export const queuedFor = (endpoint: string) => `queued:${endpoint}`;
/**
 * Subjects by when their first event is due: a time, or a lower number for its turn.
 * With turns, no two clocks have to agree on what is due.
 */
export const dueFor = (endpoint: string) => `due:${endpoint}`;
/** The number of queued events by customer. */
export const heldFor = (endpoint: string) => `held:${endpoint}`;
/** Dead letters, in the order in which they died. */
export const deadOf = (endpoint: string) => `dead:${endpoint}`;

export interface Kind<T> {
  readonly name: string;
  /** @throws RecordUnreadable, RecordNewer */
  readonly decode: (stored: unknown) => T;
  /** As what `latchkey store remove` removes a damaged one; the others expire. */
  readonly removable?: RemovableKind;
  /** Its name in messages and commands, if that is not its id. */
  readonly nameOf?: (id: string) => string;
}

export type ValueOf<K> = K extends Kind<infer T> ? T : never;

/** The record version that this Latchkey writes, and the newest that it reads. */
export const RECORD_VERSION = 1;

/** Tags a value with the record version. Undefined members are omitted, as they are when read back. */
export function encode<T extends object>(value: T): T & { readonly v: number } {
  const stored: Record<string, unknown> = { ...value, v: RECORD_VERSION };
  for (const name of Object.keys(stored)) if (stored[name] === undefined) delete stored[name];
  return stored as T & { readonly v: number };
}

/** A value of another type must not reach its fields: a text as the expiry would never be reached. */
function kind<F extends z.ZodRawShape>(
  name: string,
  fields: F,
  more: Pick<Kind<unknown>, 'removable' | 'nameOf'> = {},
): Kind<z.output<z.ZodObject<F>>> {
  const schema = z.object(fields);
  const decode = (stored: unknown) => {
    const { v, ...value } = Object(stored) as { readonly v: unknown };
    if (typeof v === 'number' && v > RECORD_VERSION)
      throw new RecordNewer(`a ${name} record has version ${v}; this Latchkey reads up to ${RECORD_VERSION}`);
    if (typeof v !== 'number' || !schema.safeParse(value).success)
      throw new RecordUnreadable(`a ${name} record is damaged`);
    return value as z.output<typeof schema>;
  };
  return { name, decode, ...more };
}

/** The check of each field, so that no new one goes unchecked. */
type Fields<T> = { readonly [name in keyof T]-?: z.ZodType };

const text = z.string();
/** What is part of a key. */
export const id = text.min(1).max(1_024);
const texts = z.array(text);
const isSet = z.literal(true).optional();
const whole = z.int();
/** The latest and earliest time that a `Date` represents, in milliseconds. */
const time = z.number().min(-8.64e15).max(8.64e15);

/** Ignoring a restriction that is not known would allow what it forbids. */
const restrictions = z.strictObject({
  suspended: isSet,
  rate: text.refine((rate) => parseRate(rate) !== undefined).optional(),
  addresses: z.array(text.refine((range) => parseRange(range) !== undefined)).optional(),
} satisfies Fields<NonNullable<Token['restrictions']>>);

const event = z.custom<StoredWebhookEvent>((stored) => {
  if (!z.object({ id: text, type: text, subject: text }).safeParse(stored).success) return false;
  try {
    payloadOf(stored as StoredWebhookEvent);
    return true;
  } catch {
    return false;
  }
});

/** The number of characters by which a digest is named. */
const DIGEST_PART = 8;
const nameOf = (digest: string) => digest.slice(0, DIGEST_PART);

export const TOKEN: Kind<Token> = kind(
  'token',
  {
    id,
    userId: id,
    kind: z.enum(['token', 'legacy_key']),
    scopes: texts,
    services: texts,
    expiresAt: time.nullable(),
    digest: id,
    name: text,
    serviceId: text.nullable(),
    createdAt: time,
    updatedAt: time,
    declared: isSet,
    predecessorId: text.optional(),
    rotated: z
      .object({ to: text, atOnce: isSet, repeated: isSet } satisfies Fields<NonNullable<Token['rotated']>>)
      .optional(),
    rateId: text.optional(),
    restrictions: restrictions.optional(),
  } satisfies Fields<Token>,
  { removable: 'token', nameOf },
);
/** The digest of a token, by its id; it refers to the token. */
export const TOKEN_ID = kind('token_id', { digest: id });
export const USER: Kind<User> = kind(
  'user',
  {
    id,
    customerId: id,
    role: text,
    locked: z.boolean(),
    lockedBy: z.literal('operator').optional(),
    deletionPending: isSet,
    login: text.min(1),
    name: text,
    passwordHash: text.nullable(),
    rehashOf: text.optional(),
    otpSecret: text.nullable(),
    provider: z
      .object({ name: text, issuer: text, subject: text, loginAt: time } satisfies Fields<
        NonNullable<User['provider']>
      >)
      .optional(),
    createdAt: time,
    updatedAt: time,
  } satisfies Fields<User>,
  { removable: 'user' },
);
export const LOGIN = kind('login', { userId: id });
export const CUSTOMER: Kind<Customer> = kind('customer', { id, name: text }, { removable: 'customer' });
export const SERVICE: Kind<Service> = kind(
  'service',
  { id, customerId: id, name: text },
  { removable: 'service' },
);
export const SESSION: Kind<Session> = kind(
  'session',
  {
    id,
    digest: id,
    userId: id,
    endsAt: time,
    lastSeenAt: time,
    createdAt: time,
    idleEndsAt: time,
    ip: text,
    userAgent: text.nullable(),
    provider: z
      .object({
        name: text,
        sid: text.nullable(),
        idToken: text.optional(),
        claims: z.record(text, text).optional(),
      } satisfies Fields<NonNullable<Session['provider']>>)
      .optional(),
  } satisfies Fields<Session>,
  { removable: 'session', nameOf },
);

/** A damaged last use is like none: the next use replaces it. */
function orNone<T>({ name, decode }: Kind<T>): Kind<T | null> {
  return { name, decode: (stored) => unlessDamaged(() => decode(stored)) ?? null };
}

const use = { at: time, ip: text, userAgent: text.nullable() };
export const USE: Kind<TokenUse | null> = orNone(kind('use', use));
export const SESSION_USE: Kind<SessionUse | null> = orNone(kind('session_use', { ...use, idleEndsAt: time }));
export const SUDO = kind('sudo', { until: time });
export const LOGOUT = kind('logout', { issuedAt: time, receivedAt: time, until: time });
export const ATTEMPTS = kind('attempts', {
  count: whole,
  lastAt: time,
  /** Time of the previous attempt; the wait counts from it when the latest attempt is released. */
  before: time,
  forgetAt: time,
});
export const KNOWN = kind('known', { addresses: z.array(z.object({ address: text, until: time })) });
export const OTP_STEP = kind('otp_step', { step: whole });
export const WRITES = kind('writes', { hour: time, count: whole });
export const RATE = kind('rate', { fullAt: z.number() });
export const WARNED = kind('warned', { expiresAt: time });
/**
 * Changes with each addition to the tokens or sessions of a user, so that no limit is exceeded. `most`
 * is what their number does not exceed; removals do not lower it.
 */
export const GUARD = kind('guard', { most: whole.optional() });

/** Undefined: unknown. */
export function boundOf(guard: ValueOf<typeof GUARD> | undefined): number | undefined {
  return guard === undefined ? 0 : guard.most;
}
export const SIGNING_KEYS: Kind<SigningKeys> = kind('signing_keys', {
  revision: whole,
  keys: z.array(
    z.object({ kid: text, algorithm: z.enum(['EdDSA', 'ES256']), sealedKey: text, signsFrom: whole }),
  ),
} satisfies Fields<SigningKeys>);
export const META = kind('setting', { number: z.number() });
/** A process that serves requests. The workers of a sidecar share its `sidecar`. */
export const PROCESS = kind('process', {
  id: text,
  sidecar: text,
  /** Host and port, like `pod-1:8080`. */
  name: text,
  pid: whole,
  version: text,
  configHash: text,
  startedAt: time,
  /** Milliseconds since its notification link was last confirmed; null with the embedded store. */
  linkAge: z.number().nullable(),
  /** When it last said so, by the store's clock. */
  at: time,
});
export type Member = Omit<ValueOf<typeof PROCESS>, 'at'>;
/** A question to all processes. */
export const QUESTION = kind('question', {});
export const LEASE = kind('lease', { name: text, holder: text, number: whole, until: time });
export const ENDPOINT = kind('endpoint', {
  queued: whole,
  /** Number of events, and of dead letters, dropped because their queue was full. */
  dropped: whole,
  deadDropped: whole,
  disabledAt: time.nullable(),
  lastSuccessAt: time.nullable(),
  lastFailureAt: time.nullable(),
  lastError: text.nullable(),
  /** When a sender last named it. */
  keptAt: time,
  last: whole,
});
export type EndpointState = ValueOf<typeof ENDPOINT>;
/** The expired tokens that were reported: up to a time, and of that time up to an id. */
export const CURSOR = kind('expired', { until: time, id: text });
/** Events that wait until a sender distributes them to the queues of endpoints. */
export const WAITING = kind('waiting', { event, endpoints: texts });
/** Events of one subject for one endpoint, in order, and the failed attempts to send the first one. */
export const QUEUE = kind('queue', { events: z.array(event), attempts: whole }, { removable: 'webhook' });
/** By endpoint and id. */
export const DEAD = kind(
  'dead',
  { event, attempts: whole, failedAt: time, error: text },
  { removable: 'dead_letter', nameOf: (id) => id.slice(0, id.indexOf('/')) },
);
/** A name that can never be added again (`namesOfRevoked`). */
export const REVOKED = kind('revoked', {});

export function keyOf({ name }: Kind<unknown>, id: string): Key {
  return `${name}:${id}`;
}

/**
 * @param name in messages, if not the usual one
 * @throws RecordUnreadable, RecordNewer; both name it
 */
export function valueOf<T>(
  kind: Kind<T>,
  id: string,
  stored: Stored | undefined,
  name?: string,
): T | undefined {
  if (stored === undefined) return undefined;
  if (stored.decoded !== undefined) return stored.decoded as T;
  try {
    const value = kind.decode(stored.value);
    stored.decoded = value;
    return value;
  } catch (cause) {
    const own = name ?? kind.nameOf?.(id) ?? id;
    const called = `${kind.removable ?? kind.name} ${own}`;
    if (cause instanceof RecordNewer) throw new RecordNewer(`${cause.message} (${called})`, { cause });
    if (!(cause instanceof RecordUnreadable)) throw cause;
    // A digest may begin with a dash, as options do.
    const operand = own.startsWith('-') ? `-- ${own}` : own;
    const remedy =
      kind.removable === undefined ? '' : `; "latchkey store remove ${kind.removable} ${operand}" removes it`;
    throw new RecordUnreadable(`${cause.message} (${called}${remedy})`, { cause });
  }
}

/** @throws RecordNewer */
export function isDamaged(kind: Kind<unknown>, id: string, stored: Stored | undefined): boolean {
  try {
    valueOf(kind, id, stored);
    return false;
  } catch (error) {
    if (!(error instanceof RecordUnreadable)) throw error;
    return true;
  }
}
