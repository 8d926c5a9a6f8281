import type { EpochMs } from '../util/time.js';
import type { Maintenance } from './store.js';

/** The earlier time of this machine and the store: what a clock that is ahead removes is lost. */
export async function removalTime(
  maintenance: Pick<Maintenance, 'clock'>,
  now: EpochMs = Date.now(),
): Promise<EpochMs> {
  return Math.min(now, await maintenance.clock());
}
