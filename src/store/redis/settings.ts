import type { Config } from '../../config/schema/config.js';

/** One of `url`, `cluster` and `sentinel` is set. */
export type RedisSettings = Omit<
  Extract<Config['store'], { type: 'redis' }>,
  'type' | 'revocations' | 'sealing_key'
>;
