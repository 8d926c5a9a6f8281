/** The kinds of records: the prefix of their keys, and how their values are checked. */
import type { RecordedLogout, Session } from '../../domain/session.js';
import type { EpochMs } from '../../util/time.js';
import { RecordNewer, RecordUnreadable, unlessDamaged } from '../faults.js';
import type { Key, Stored } from './kv.js';
import type { SessionUse, Token, TokenUse } from '../../domain/token.js';
import type { Customer, Service, User } from '../../domain/user.js';
import { payloadOf, type StoredWebhookEvent } from '../../domain/webhook.js';
import * as records from '../records.js';

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
/** Ids of rotated tokens, with the end of their overlap or of the claim to report it. */
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
  readonly removable?: records.RemovableKind;
  /** Its name in messages and commands, if that is not its id. */
  readonly nameOf?: (id: string) => string;
}

const beginning = (digest: string) => digest.slice(0, records.DIGEST_PART);

export interface KnownAddress {
  readonly address: string;
  readonly until: EpochMs;
}

export interface KeptLogout extends Omit<RecordedLogout, 'name'> {
  readonly until: EpochMs;
}

export interface EndpointState extends records.EndpointCounts {
  /** When a sender last named it. */
  readonly keptAt: EpochMs;
  readonly last: number;
}

export interface Lease {
  readonly name: string;
  readonly holder: string;
  readonly number: number;
  readonly until: EpochMs;
}

/** The expired tokens that were reported: up to a time, and of that time up to an id. */
export interface ExpiredCursor {
  readonly until: EpochMs;
  readonly id: string;
}

/** Events that wait until a sender distributes them to the queues of endpoints. */
export interface Waiting {
  readonly event: StoredWebhookEvent;
  readonly endpoints: readonly string[];
}

/** Events of one subject for one endpoint, in order; the first one is sent next. */
export interface SubjectQueue {
  readonly events: readonly StoredWebhookEvent[];
  /** Failed attempts to send the first one. */
  readonly attempts: number;
}

const { isText, isTime, listOf, objectOf, decoder } = records;
const isNumber = (value: unknown): boolean => Number.isSafeInteger(value);
/** A damaged last use is like none: the next use replaces it. */
function orNone<T>(decode: (stored: unknown) => T): (stored: unknown) => T | null {
  return (stored) => unlessDamaged(() => decode(stored)) ?? null;
}

function isEvent(stored: unknown): boolean {
  const event = stored as StoredWebhookEvent | null | undefined;
  if (!isText(event?.id) || !isText(event?.type) || !isText(event?.subject)) return false;
  try {
    payloadOf(event as StoredWebhookEvent);
    return true;
  } catch {
    return false;
  }
}

const isTimeOrNull = (value: unknown): boolean => value === null || isTime(value);

/** A record that only this program writes, whose members need no check of their own. */
function plain<T extends object>(name: string): Kind<T> {
  return { name, decode: decoder<T>(name, {} as never) };
}

export const TOKEN: Kind<Token> = {
  name: 'token',
  decode: records.tokenOf,
  removable: 'token',
  nameOf: beginning,
};
/** The digest of a token, by its id; it refers to the token. */
export const TOKEN_ID = {
  name: 'token_id',
  decode: decoder<{ readonly digest: string }>('token id', { digest: isText }),
};
export const USER: Kind<User> = { name: 'user', decode: records.userOf, removable: 'user' };
export const LOGIN = {
  name: 'login',
  decode: decoder<{ readonly userId: string }>('login', { userId: isText }),
};
export const CUSTOMER: Kind<Customer> = {
  name: 'customer',
  decode: records.customerOf,
  removable: 'customer',
};
export const SERVICE: Kind<Service> = { name: 'service', decode: records.serviceOf, removable: 'service' };
export const SESSION: Kind<Session> = {
  name: 'session',
  decode: records.sessionOf,
  removable: 'session',
  nameOf: beginning,
};
export const USE: Kind<TokenUse | null> = { name: 'use', decode: orNone(records.useOf) };
export const SESSION_USE: Kind<SessionUse | null> = {
  name: 'session_use',
  decode: orNone(records.sessionUseOf),
};
export const SUDO = { name: 'sudo', decode: records.sudoOf };
export const LOGOUT = {
  name: 'logout',
  decode: decoder<KeptLogout>('provider logout', { issuedAt: isTime, receivedAt: isTime, until: isTime }),
};
export const ATTEMPTS = { name: 'attempts', decode: records.attemptsOf };
export const KNOWN = {
  name: 'known',
  decode: decoder<{ readonly addresses: readonly KnownAddress[] }>('known address', {
    addresses: listOf(objectOf<KnownAddress>({ address: isText, until: isTime })),
  }),
};
export const OTP_STEP = {
  name: 'otp_step',
  decode: decoder<{ readonly step: number }>('one-time password', { step: isNumber }),
};
export const WRITES = {
  name: 'writes',
  decode: decoder<{ readonly hour: EpochMs; readonly count: number }>('count of writes', {
    hour: isTime,
    count: isNumber,
  }),
};
export const RATE = {
  name: 'rate',
  decode: decoder<{ readonly fullAt: EpochMs }>('rate', { fullAt: Number.isFinite }),
};
export const WARNED = {
  name: 'warned',
  decode: decoder<{ readonly expiresAt: EpochMs }>('warning', { expiresAt: isTime }),
};
/**
 * Changes with each addition to the tokens or sessions of a user, so that no limit is exceeded. `most`
 * is what the number of tokens does not exceed; removals do not lower it.
 */
export const GUARD = plain<{ readonly most?: number }>('guard');

/** Undefined: unknown. */
export function boundOf(guard: { readonly most?: number } | undefined): number | undefined {
  return guard === undefined ? 0 : guard.most;
}
export const SIGNING_KEYS = { name: 'signing_keys', decode: records.signingKeysOf };
export const META = {
  name: 'setting',
  decode: decoder<{ readonly number: number }>('setting', { number: Number.isFinite }),
};
export const PROCESS = plain<records.Member & { readonly at: EpochMs }>('process');
/** A question to all processes. */
export const QUESTION = plain<object>('question');
export const LEASE = plain<Lease>('lease');
export const ENDPOINT = {
  name: 'endpoint',
  decode: decoder<EndpointState>('webhook endpoint', {
    queued: isNumber,
    dropped: isNumber,
    deadDropped: isNumber,
    disabledAt: isTimeOrNull,
    lastSuccessAt: isTimeOrNull,
    lastFailureAt: isTimeOrNull,
    lastError: (value) => value === null || isText(value),
    keptAt: isTime,
    last: isNumber,
  }),
};
export const CURSOR = {
  name: 'expired',
  decode: decoder<ExpiredCursor>('position', { until: isTime, id: isText }),
};
export const WAITING: Kind<Waiting> = {
  name: 'waiting',
  decode: decoder<Waiting>('webhook event', { event: isEvent, endpoints: listOf(isText) }),
};
/** By endpoint and subject. */
export const QUEUE: Kind<SubjectQueue> = {
  name: 'queue',
  decode: decoder<SubjectQueue>('webhook event', { events: listOf(isEvent), attempts: isNumber }),
  removable: 'webhook',
};
/** By endpoint and id. */
export const DEAD: Kind<records.DeadWebhook> = {
  name: 'dead',
  decode: decoder<records.DeadWebhook>('dead letter', {
    event: isEvent,
    attempts: isNumber,
    failedAt: isTime,
    error: isText,
  }),
  removable: 'dead_letter',
  nameOf: (id) => id.slice(0, id.indexOf('/')),
};
/** A name that can never be added again (`namesOfRevoked`). */
export const REVOKED = plain<object>('revoked');

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
    const called = `${kind.removable ?? kind.name} ${name ?? kind.nameOf?.(id) ?? id}`;
    if (cause instanceof RecordNewer) throw new RecordNewer(`${cause.message} (${called})`, { cause });
    if (!(cause instanceof RecordUnreadable)) throw cause;
    const remedy = kind.removable === undefined ? '' : `; "latchkey store remove ${called}" removes it`;
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
