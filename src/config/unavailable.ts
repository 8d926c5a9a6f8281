import type { Config } from './schema/config.js';

/** Settings that are part of the interface and not served by this version; each is refused instead of ignored. */
export const UNAVAILABLE: readonly {
  readonly path: readonly string[];
  readonly isSet: (config: Config) => boolean;
}[] = [{ path: ['interface', 'account_endpoints'], isSet: (c) => c.interface.account_endpoints }];
