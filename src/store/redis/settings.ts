import type { Config } from '../../config/schema/config.js';

/** Settings of `store` with `type: redis`, without what is no matter of its connections. One of `url`, `cluster` and `sentinel` is given. */
export type RedisSettings = Omit<
  Extract<Config['store'], { type: 'redis' }>,
  'type' | 'revocations' | 'sealing_key'
>;
