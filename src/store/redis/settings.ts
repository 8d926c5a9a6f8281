import type { Config } from '../../config/schema/config.js';

/**
 * The settings of `store` with `type: redis` that concern its connections. One of `url`, `cluster`
 * and `sentinel` is set.
 */
export type RedisSettings = Omit<
  Extract<Config['store'], { type: 'redis' }>,
  'type' | 'revocations' | 'sealing_key'
>;
