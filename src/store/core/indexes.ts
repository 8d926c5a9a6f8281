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
