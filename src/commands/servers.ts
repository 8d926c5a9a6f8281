import { loadConfig } from '../config/load.js';
import type { ConnectionFailed } from '../util/system-error.js';
import { formatTime } from '../util/time.js';
import { fetchLimited } from '../net/fetch-limited.js';
import type { describeDifferences } from '../pipeline/shadow.js';
import type { LiveMember } from '../store/core/fleet.js';
import { membersOf } from './access-log.js';
import type { ReportOptions } from './terminal/options.js';
import { CommandFailed, renderList, report, reportList } from './terminal/output.js';
import { withStore } from './with-store.js';

const TIMEOUT_MS = 3_000;
/** Longer than a server needs to read a large directory. */
const RELOAD_TIMEOUT_MS = 60_000;
const MAX_BODY = 16 * 1024 * 1024;

export function adminUrl(configFile: string): string {
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

type ShadowReport =
  | { readonly policy_shadow: null }
  | ({ readonly policy_shadow: string; readonly is_same: boolean } & ReturnType<typeof describeDifferences>);

type Difference = ReturnType<typeof describeDifferences>['casualties'][number];

export async function policyShadow(options: ReportOptions & { admin?: URL }): Promise<void> {
  const url = `${options.admin?.origin ?? adminUrl(options.config)}/-/shadow`;
  const { status, text } = await requestAdmin(url);
  if (status !== 200) throw new CommandFailed(`${url} responded with ${status}: ${text}`);
  const answer = membersOf(text) as ShadowReport | undefined;
  if (answer?.policy_shadow === undefined)
    throw new CommandFailed(
      `${url} is not the admin port of a Latchkey: its response is not a report; check --admin`,
    );
  if (answer.policy_shadow === null)
    throw new CommandFailed('the server has no shadow policy; set policy_shadow and reload');
  report(options, answer, await render(answer));
}

async function render(answer: Exclude<ShadowReport, { policy_shadow: null }>): Promise<string> {
  const { policy_shadow: file, is_same: isSame, since, requests, casualties } = answer;
  if (isSame) return `${file}: has the same rules as the policy in force`;
  const { compared, not_compared: missed, would_refuse: refused, would_allow: allowed } = requests;
  const summary = [
    `${file}: since ${since}`,
    `${compared} requests compared, ${missed} not compared; ${refused} would be refused, ${allowed} would be allowed`,
  ];
  if (casualties.length === 0) return summary.join('\n');
  const table = await renderList(casualties.map(rowOf), CASUALTY_COLUMNS);
  return [...summary, '', table.trimEnd()].join('\n');
}

const CASUALTY_COLUMNS = [
  'count', 'change', 'caller', 'route', 'action', 'now', 'now_by', 'shadow', 'shadow_by', 'user_agent',
]; // prettier-ignore

function rowOf(each: Difference) {
  const { count, overcount, live, shadow } = each;
  return {
    ...each,
    count: `${overcount > 0 ? '<=' : ''}${count}`,
    caller: callerOf(each),
    route: live.route,
    action: live.action ?? shadow.action,
    now: live.outcome,
    now_by: live.rule,
    shadow: shadow.outcome,
    shadow_by: shadow.rule,
  };
}

function callerOf({ credential, token_id: token, user_id: user, issuer, subject }: Difference): string {
  if (credential === null) return 'nobody';
  if (credential === 'jwt') return `jwt ${issuer} ${subject}`;
  return token === null ? `${credential} of ${user}` : `${credential} ${token} of ${user}`;
}
