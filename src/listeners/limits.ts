import type { Config } from '../config/schema/config.js';

export type ListenerLimits = Pick<
  Config['limits'],
  'head_size' | 'head_fields' | 'target_size' | 'head_timeout' | 'keep_alive'
>;
