import { loadConfig } from '../config/load.js';
import { formatTime } from '../domain/time.js';
import type { LiveMember } from '../store/fleet-store.js';
import type { ReportOptions } from './terminal/options.js';
import { relativeTime, renderTable, report } from './terminal/output.js';
import { withStore } from './with-store.js';

/** A sidecar with all of its processes. */
interface ListedSidecar {
  readonly name: string;
  readonly version: string;
  /** Of its processes; several while it is being reloaded. */
  readonly config_hash: string;
  readonly workers: number;
  readonly started_at: string;
  /** Of the process whose heartbeat is the oldest. */
  readonly heartbeat_age_ms: number;
  /**
   * Of the process that was certain to receive change notifications the longest time ago: what it knows may be so far
   * behind. 0 with the embedded store, which each request reads.
   */
  readonly lag_ms: number;
}

/** Lists the sidecars that are up, and warns when they run different configurations. */
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
