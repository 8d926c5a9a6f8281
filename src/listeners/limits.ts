import type { Config } from '../config/schema/config.js';

/** Limits of connections and request heads. */
export type ListenerLimits = Pick<
  Config['limits'],
  'head_size' | 'head_fields' | 'target_size' | 'head_timeout' | 'keep_alive'
>;

/**
 * Minimum milliseconds for a client to read the rest of a response; a client on a slow line that
 * reads steadily needs more than a short `keep_alive`.
 */
const UNREAD_MS = 60_000;

/** Returns the milliseconds for which a client may leave the rest of a response unread. */
export function unreadLimit({ keep_alive }: ListenerLimits): number {
  return Math.max(keep_alive, UNREAD_MS);
}
