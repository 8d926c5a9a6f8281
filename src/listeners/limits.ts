import type { Config } from '../config/schema/config.js';

/** Limits of connections and request heads. */
export type ListenerLimits = Pick<
  Config['limits'],
  'head_size' | 'head_fields' | 'target_size' | 'head_timeout' | 'keep_alive'
>;
