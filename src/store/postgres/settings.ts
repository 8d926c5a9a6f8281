import type { Config } from '../../config/schema/config.js';

/** The settings of `store` with `type: postgres` that concern its connections. */
export type PostgresSettings = Omit<Extract<Config['store'], { type: 'postgres' }>, 'type' | 'sealing_key'>;
