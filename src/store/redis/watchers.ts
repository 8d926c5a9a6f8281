import type { Watchers } from './agreement.js';
import { ClusterNodes } from './cluster-nodes.js';
import { nodeOf } from './connect.js';
import { Sentinels } from './sentinels.js';
import type { RedisSettings } from './settings.js';

/**
 * Those who know the master of a store: sentinels, the nodes of a cluster, or the configuration.
 *
 * @param key any key of the store, which all are in one slot of a cluster
 * @param onChange called when they may have chosen another one
 */
export function watchersOf(settings: RedisSettings, key: string, onChange: () => void): Watchers {
  if (settings.sentinel !== null) return new Sentinels(settings.sentinel, settings, onChange);
  if (settings.cluster !== null) return new ClusterNodes(settings.cluster, settings, key);
  const master = { node: nodeOf(settings.url), epoch: 0 };
  return { findMaster: async () => master, close: () => undefined };
}
