import { loadConfig } from '../config/load.js';
import { formatTime } from '../domain/time.js';
import type { LiveMember } from '../store/fleet-store.js';
import type { ReportOptions } from './terminal/options.js';
import { relativeTime, renderTable, report } from './terminal/output.js';
import { withStore } from './with-store.js';

/** A sidecar with all its processes. */
interface ListedSidecar {
  readonly name: string;
  readonly version: string;
  /** Hashes of its processes, joined by `+`; more than one during a reload. */
  readonly config_hash: string;
  readonly workers: number;
  readonly started_at: string;
  /** Age of the oldest heartbeat among its processes. */
  readonly heartbeat_age_ms: number;
  /**
   * Longest time since one of its processes was known to receive change notifications.
   *
   * Its data may be this stale. 0 with the embedded store, which each request reads.
   */
  readonly lag_ms: number;
}

/** Lists the live sidecars, and warns when they run different configurations. */
export async function listFleet(options: ReportOptions): Promise<void> {
  await withStore(loadConfig(options.config), async ({ store }) => {
    const sidecars = sidecarsOf(await store.fleet.list());
    const rows = sidecars.map((each) => [
      each.name,
      each.version,
      each.config_hash,
      String(each.workers),
      relativeTime(Date.parse(each.started_at), Date.now()),
      `${each.heartbeat_age_ms} ms ago`,
      `${each.lag_ms} ms`,
    ]);
    const heading = ['NAME', 'VERSION', 'CONFIG', 'WORKERS', 'STARTED', 'HEARTBEAT', 'LAG'];
    report(
      options,
      { sidecars },
      rows.length === 0 ? 'no sidecars are up' : (await renderTable(heading, rows)).trimEnd(),
    );
    if (new Set(sidecars.map((each) => each.config_hash)).size > 1)
      process.stderr.write(
        'warning: the sidecars run different configurations; reload or restart those that differ\n',
      );
  });
}

function sidecarsOf(members: readonly LiveMember[]): ListedSidecar[] {
  const ids = [...new Set(members.map(({ sidecar }) => sidecar))];
  return ids
    .map((id) => describe(members.filter(({ sidecar }) => sidecar === id)))
    .toSorted((a, b) => (a.name < b.name ? -1 : a.name > b.name ? 1 : 0));
}

function describe(members: readonly LiveMember[]): ListedSidecar {
  const [first] = members as [LiveMember];
  const hashes = new Set(members.map(({ configHash }) => configHash));
  return {
    name: first.name,
    version: first.version,
    config_hash: [...hashes].toSorted().join('+'),
    workers: members.length,
    started_at: formatTime(first.startedAt),
    heartbeat_age_ms: Math.max(...members.map(({ age }) => age)),
    lag_ms: Math.max(...members.map(({ linkAge }) => linkAge ?? 0)),
  };
}
