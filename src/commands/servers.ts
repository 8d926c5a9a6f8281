import { loadConfig } from '../config/load.js';
import type { ConnectionFailed } from '../util/system-error.js';
import { formatTime } from '../util/time.js';
import { fetchLimited } from '../net/fetch-limited.js';
import type { LiveMember } from '../store/core/fleet.js';
import { membersOf } from './log-lines.js';
import type { ReportOptions } from './terminal/options.js';
import { CommandFailed, report, reportList } from './terminal/output.js';
import { withStore } from './with-store.js';

const TIMEOUT_MS = 3_000;
/** Longer than a server needs to read a large directory. */
const RELOAD_TIMEOUT_MS = 60_000;
const MAX_BODY = 16 * 1024 * 1024;

function adminUrl(configFile: string): string {
  const { host, port } = loadConfig(configFile).config.admin;
  if (port === 0)
    throw new CommandFailed(
      `admin.port in ${configFile} is 0, so the server chooses a free port, which its log names; set a fixed port`,
    );
  return `http://${host.includes(':') ? `[${host}]` : host}:${port}`;
}

async function requestAdmin(
  url: string,
  method: 'GET' | 'POST' = 'GET',
  timeout = TIMEOUT_MS,
): Promise<{ status: number; text: string }> {
  try {
    return await fetchLimited(url, { method, timeout, maxBody: MAX_BODY, direct: true });
  } catch (error) {
    const { reason } = error as ConnectionFailed;
    throw new CommandFailed(`${url} does not respond: ${reason}; is the server running?`);
  }
}

export async function healthcheck(options: { config: string }): Promise<void> {
  const { status, text } = await requestAdmin(`${adminUrl(options.config)}/readyz`);
  if (status !== 200) throw new CommandFailed(`not ready: ${text}`);
}

export async function reload(options: { config: string }): Promise<void> {
  const url = `${adminUrl(options.config)}/-/reload`;
  const { status, text } = await requestAdmin(url, 'POST', RELOAD_TIMEOUT_MS);
  const { needs_restart: needsRestart = [], msg = `the server responded with ${status}`, faults = [] }: ReloadAnswer = membersOf(text) ?? {};
  if (status !== 200) throw new CommandFailed([msg.toLowerCase(), ...faults].join(': '));
  if (needsRestart.length > 0)
    process.stderr.write(`warning: these settings take effect after a restart: ${needsRestart.join(', ')}\n`);
  report({}, {}, 'reloaded');
} // prettier-ignore

interface ReloadAnswer {
  readonly needs_restart?: readonly string[];
  readonly msg?: string;
  readonly faults?: readonly string[];
}

const COLUMNS = ['name', 'version', 'config_hash', 'workers', 'started_at', 'heartbeat_age_ms', 'lag_ms'];

export async function listFleet(options: ReportOptions): Promise<void> {
  await withStore(loadConfig(options.config), async ({ store }) => {
    const sidecars = sidecarsOf(await store.fleet.list());
    await reportList(options, { sidecars }, sidecars, COLUMNS, 'no sidecars are up');
    if (new Set(sidecars.map((each) => each.config_hash)).size > 1)
      process.stderr.write(
        'warning: the sidecars run different configurations; reload or restart those that differ\n',
      );
  });
}

function sidecarsOf(members: readonly LiveMember[]) {
  const ids = [...new Set(members.map(({ sidecar }) => sidecar))];
  return ids
    .map((id) => describe(members.filter(({ sidecar }) => sidecar === id)))
    .toSorted((a, b) => (a.name < b.name ? -1 : a.name > b.name ? 1 : 0));
}

function describe(members: readonly LiveMember[]) {
  const [first] = members as [LiveMember];
  const hashes = new Set(members.map(({ configHash }) => configHash));
  return {
    name: first.name,
    version: first.version,
    // More than one during a reload.
    config_hash: [...hashes].toSorted().join('+'),
    workers: members.length,
    started_at: formatTime(first.startedAt),
    heartbeat_age_ms: Math.max(...members.map(({ age }) => age)),
    // 0 with the embedded store, which each request reads.
    lag_ms: Math.max(...members.map(({ linkAge }) => linkAge ?? 0)),
  };
}
