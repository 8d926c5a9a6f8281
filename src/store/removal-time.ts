import type { EpochMs } from '../util/time.js';
import type { Maintenance } from './store.js';

/**
 * Returns the time by which records are removed, reported as expired, and judged inactive for a
 * removal: the earlier one of this machine and the store. What a machine whose clock is ahead
 * removes is lost to the whole fleet.
 */
export async function removalTime(
  maintenance: Pick<Maintenance, 'clock'>,
  now: EpochMs = Date.now(),
): Promise<EpochMs> {
  return Math.min(now, await maintenance.clock());
}
