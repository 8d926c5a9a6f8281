/** Names of indexes. Scores are 0 unless the comment says otherwise. */
import { type Kind, keyOf } from './kinds.js';

/** Everything that expires, by `KIND:ID`, with the time. */
export const EXPIRY = 'expiry';
/** The name under which a record stands in the index of expiries. */
export const expiring = (kind: Kind<unknown>, id: string) => keyOf(kind, id);
/** The score of a token that never expires. */
export const NEVER = Number.MAX_SAFE_INTEGER;

/** Ids of all tokens, and of those of a user, with their expiry. */
export const ALL_TOKENS = 'tokens';
export const tokensOf = (userId: string) => `tokens:${userId}`;
/** Ids of tokens that a rotation created, in the order of ids: a family stands together. */
export const SUCCESSORS = 'successors';
/** Ids of tokens that a directory file declares. */
export const DECLARED = 'declared';
export const LEGACY_KEYS = 'legacy_keys';
/** Names that can never be added again. */
export const REVOKED_NAMES = 'revoked';
/** Ids of rotated tokens, with the end of their overlap or of the claim to report it. */
export const OVERLAPS = 'overlaps';

/** Digests of the sessions of a user. */
export const sessionsOf = (userId: string) => `sessions:${userId}`;
/** Ids of the credentials of a user that have sudo, with its end. */
export const sudosOf = (userId: string) => `sudos:${userId}`;

export const CUSTOMERS = 'customers';
export const PENDING_DELETIONS = 'pending_deletions';
export const servicesOf = (customerId: string) => `services:${customerId}`;
export const usersOf = (customerId: string) => `users:${customerId}`;

/** Endpoints of webhooks that have a state. */
export const ENDPOINTS = 'endpoints';
/** Ids of queued events, with their times. */
export const queuedFor = (endpoint: string) => `queued:${endpoint}`;
/**
 * Subjects with events, by when the first one is due: a time, or a turn, which is a number lower
 * than every time. With turns, no two clocks have to agree on what is due.
 */
export const dueFor = (endpoint: string) => `due:${endpoint}`;
/** The number of queued events by customer. */
export const heldFor = (endpoint: string) => `held:${endpoint}`;
/** Dead letters, in the order in which they died. */
export const deadOf = (endpoint: string) => `dead:${endpoint}`;
