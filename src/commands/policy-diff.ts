import { relative } from 'node:path';
import { loadCandidate } from '../config/candidate.js';
import { loadConfig, type LoadedConfig } from '../config/load.js';
import { counted, maskTokens, printable } from '../util/text.js';
import { METHODS } from '../domain/methods.js';
import { type ComparedPolicies, diffPolicies } from '../policy-diff/compare.js';
import type { ChangedDecisions, ChangedRoute, PolicyDiff, ReportedRoute } from '../policy-diff/report.js';
import type { DecidingRule } from '../policy-diff/rules.js';
import type { ServiceLimit } from '../policy-diff/senders.js';
import { uncomparedKeys } from '../policy-diff/uncompared.js';
import type { AffectedRequests, ReplayReport } from './replay.js';
import { asJson, print, showProgress, renderTable } from './terminal/output.js';

export interface PolicyDiffOptions {
  readonly config: string;
  readonly against: string;
  readonly requests?: string;
  readonly allow?: readonly string[];
  readonly json?: true;
}

export async function policyDiff(options: PolicyDiffOptions): Promise<number> {
  const running = loadConfig(options.config);
  const candidate = loadCandidate(options.against, running);
  const compared = await diffPolicies(running, candidate, (done, all) => {
    if (done % 50 === 0) showProgress(`comparing ${done} of ${all} kinds of requests`);
  });
  const requests =
    options.requests === undefined ? undefined : await replayed(running, compared, options.requests);
  const notCompared = uncomparedKeys(running, candidate.loaded, options.allow);
  const report: PolicyDiffReport = {
    config: running.file,
    against: candidate.loaded.file,
    result: resultOf(compared, notCompared, requests),
    not_compared: notCompared,
    ...compared.diff,
    ...(requests === undefined ? {} : { requests }),
  };
  print(maskTokens(options.json ? asJson(report) : await renderPolicyDiff(report)));
  return report.result === 'allows_more' || report.result === 'incomplete' ? 1 : 0;
}

async function replayed(
  running: LoadedConfig,
  compared: ComparedPolicies,
  file: string,
): Promise<ReplayReport> {
  const { replay } = await import('./replay.js');
  return replay(running, compared, file, showProgress);
}

function resultOf(
  { diff }: ComparedPolicies,
  notCompared: readonly string[],
  requests: ReplayReport | undefined,
): Result {
  const replayed = requests?.noticed.map(({ change }) => change) ?? [];
  if (diff.newly_allowed.length > 0 || replayed.includes('newly_allowed')) return 'allows_more';
  if (diff.incomplete.length > 0 || notCompared.length > 0) return 'incomplete';
  return diff.newly_refused.length > 0 || replayed.length > 0 ? 'refuses_more' : 'nothing_changes';
}

export type Result = 'nothing_changes' | 'refuses_more' | 'allows_more' | 'incomplete';

interface PolicyDiffReport extends PolicyDiff {
  readonly config: string;
  readonly against: string;
  readonly result: Result;
  readonly not_compared: readonly string[];
  readonly requests?: ReplayReport;
}

/** Maximum number of rows shown per table; `--json` shows all. */
const MAX_ROWS = 50;

/** Newly allowed requests come first, because nobody would complain about them. */
async function renderPolicyDiff(report: PolicyDiffReport): Promise<string> {
  const { newly_allowed: allowed, newly_refused: refused, requests } = report;
  const parts = [
    `${shownFile(report.config)} -> ${shownFile(report.against)}`,
    ...(await sectionOf('NEWLY ALLOWED', allowed)),
    ...(await sectionOf('NEWLY REFUSED', refused)),
    ...(requests === undefined ? [] : await requestsOf(requests)),
    ...notComparedOf(report.not_compared),
    ...report.incomplete.map((why) => `INCOMPLETE: ${why}`),
    summaryOf(report),
  ];
  return `${parts.map((part) => part.split('\n').map(printable).join('\n').trimEnd()).join('\n\n')}\n`;
}

function notComparedOf(keys: readonly string[]): string[] {
  if (keys.length === 0) return [];
  const shown = keys.slice(0, MAX_ROWS).map((key) => `    ${key}`).join('\n');
  return [`DIFFERS, NOT COMPARED (after a review, pass each with --allow KEY)\n\n${shown}\n${moreThan(keys.length)}`];
} // prettier-ignore

function summaryOf({ newly_allowed: allowed, newly_refused: refused, incomplete, not_compared: left, examined }: PolicyDiffReport) {
  const { route_pairs: pairs, roles, scopes } = examined;
  const looked = `${counted(pairs, 'pair')} of routes, ${counted(roles, 'role')}, ${counted(scopes, 'scope')}`;
  if (allowed.length + refused.length > 0)
    return `${counted(allowed.length, 'change')} that ${allowed.length === 1 ? 'allows' : 'allow'} more, ${refused.length} that ${refused.length === 1 ? 'refuses' : 'refuse'} more (${looked} compared)`;
  return incomplete.length + left.length > 0
    ? `No change found, but not everything was compared (${looked})`
    : `Nothing changes (${looked} compared)`;
} // prettier-ignore

async function sectionOf(title: string, changes: readonly ChangedDecisions[]): Promise<string[]> {
  if (changes.length === 0) return [];
  const ordered = [false, true].flatMap((special) => changes.filter(({ conditions }) => conditions.length > 0 === special));
  return [title, ...(await Promise.all(ordered.map(changeOf)))];
} // prettier-ignore

function moreThan(rows: number): string {
  return rows > MAX_ROWS ? `    and ${rows - MAX_ROWS} more; --json lists all\n` : '';
}

async function changeOf(change: ChangedDecisions): Promise<string> {
  const lines = [['who', whoOf(change)]];
  if (change.scopes.length > 0) lines.push(['tokens', change.service_limits.map((limit) => LIMITS[limit]).join(', ')]); // prettier-ignore
  if (change.conditions.length > 0) lines.push(['if', change.conditions.join('; or ')]);
  lines.push(['now', ruleText(change.rule)], ['then', ruleText(change.against_rule)]);
  const head = lines.map(([label = '', text = '']) => `  ${label.padEnd(6)}  ${text}`);
  const rows = change.routes.slice(0, MAX_ROWS).map(rowOf);
  const table = await renderTable(['METHODS', 'ROUTE', 'ACTION', 'PLACE'], rows);
  return `${head.join('\n')}\n\n${indented(table)}${moreThan(change.routes.length)}`;
}

const LIMITS: Readonly<Record<ServiceLimit, string>> = {
  none: 'not limited to services',
  any: 'limited to services',
  named: 'limited to the service of the request',
  other: 'limited to other services',
  named_by_config: 'limited to the service that the current route finds in the request',
  named_by_against: 'limited to the service that the new route finds in the request',
};

function whoOf({ everybody, anonymous, roles, sessions, scopes }: ChangedDecisions): string {
  if (everybody) return 'everyone, with or without a credential';
  if (anonymous) return 'requests without a valid credential';
  const by = [
    ...(sessions ? ['by session'] : []),
    ...(scopes.length > 0 ? [`by a token with scope ${scopes.join(' or ')}`] : []),
  ];
  return `role ${roles.join(', ')}; ${by.join(' or ')}`;
}

const CHECKS: Readonly<Record<DecidingRule['check'], string>> = {
  role: 'the role is ',
  scope: 'the scope is ',
  service_limited: '',
  service: '',
  route: 'the route ',
  path: '',
};

function ruleText({ check, text, path, file, line }: DecidingRule): string {
  const words = text.startsWith('no ') ? `${check === 'role' || check === 'scope' ? `${check}: ` : ''}${text}` : `${CHECKS[check]}${text}`; // prettier-ignore
  if (path === null) return words;
  return `${words}  (${path}, ${line === null || file === null ? 'built in' : `${shownFile(file)}:${line}`})`;
}

function rowOf({ examples, config, against, host }: ChangedRoute): string[] {
  const methods = METHODS.filter((method) => Object.hasOwn(examples, method));
  const path = pathOf(config, against);
  return [
    methods.length === METHODS.length ? 'any' : shownMethods(methods),
    host === null ? path : `${path} (host ${host})`,
    changeText(config?.action ?? '', against?.action ?? ''),
    changeText(positionOf(config), positionOf(against)),
  ];
} // prettier-ignore

const MAX_METHODS = 8;

function shownMethods(methods: readonly string[]): string {
  const more = methods.length - MAX_METHODS;
  return more > 1 ? `${methods.slice(0, MAX_METHODS).join(' ')} and ${more} others` : methods.join(' ');
}

function pathOf(config: ReportedRoute | null, against: ReportedRoute | null): string {
  return changeText(nameOf(config), nameOf(against));
}

function nameOf(route: ReportedRoute | null): string {
  if (route === null) return 'refused path';
  return route.path === '*' ? 'default_route' : route.path;
}

function changeText(now: string, then: string): string {
  return now === then ? now : `${now || 'none'} -> ${then || 'none'}`;
}

function positionOf(route: ReportedRoute | null): string {
  if (route === null) return '';
  if (route.endpoint !== null) return 'built-in endpoint';
  return route.line === null || route.file === null ? 'built in' : `${shownFile(route.file)}:${route.line}`;
}

async function requestsOf(replayed: ReplayReport): Promise<string[]> {
  const { requests, newly_allowed: allowed, newly_refused: refused, noticed, not_judged: undecided } = replayed;
  const parts = [`REQUESTS of the log: ${counted(requests, 'request')}, ${allowed} newly allowed, ${refused} newly refused, ${replayed.unchanged} unchanged`];
  if (noticed.length > 0) {
    const heading = ['CHANGE', 'CUSTOMER', 'USER', 'CREDENTIAL', 'METHOD', 'ROUTE', 'REQUESTS', 'FIRST (UTC)', 'LAST (UTC)', 'RULE'];
    const sorted = noticed.toSorted((a, b) => (a.change < b.change ? -1 : a.change > b.change ? 1 : b.requests - a.requests));
    parts.push(indented(await renderTable(heading, sorted.slice(0, MAX_ROWS).map(noticedRow))));
    const hidden = noticed.slice(MAX_ROWS).length;
    if (hidden > 0) parts.push(`    and ${hidden} more rows; --json lists all`);
  }
  const left = [
    ...undecided.map(({ why, requests: number }) => `  ${number} not compared: ${why}`),
    ...(replayed.beyond > 0 ? [`  ${replayed.beyond} changed, from more callers than are listed separately`] : []),
    ...(replayed.other_configuration > 0 ? [`  ${replayed.other_configuration} were decided by a configuration other than --config`] : []),
    ...(replayed.unreadable_lines > 0 ? [`  ${counted(replayed.unreadable_lines, 'line')} could not be read`] : []),
  ];
  return left.length === 0 ? parts : [...parts, left.join('\n')];
} // prettier-ignore

function noticedRow(each: AffectedRequests): string[] {
  const changed = each.change === 'newly_allowed' ? each.rule : each.against_rule;
  return [
    each.change === 'newly_allowed' ? 'ALLOWED' : 'refused',
    each.customer_id ?? '',
    each.login ?? each.user_id ?? 'unknown',
    [each.credential, each.token_id, each.token_name === null || each.token_name === '' ? null : `(${each.token_name})`].filter((part) => part !== null).join(' '),
    each.method,
    pathOf(each.route, each.against_route),
    String(each.requests),
    momentOf(each.first),
    momentOf(each.last),
    `${each.change === 'newly_allowed' ? 'now ' : 'then '}${ruleText(changed)}`,
  ];
} // prettier-ignore

function momentOf(time: string | null): string {
  return time === null ? '' : time.slice(0, 16).replace('T', ' ');
}

function indented(table: string): string {
  return table.replace(/^(?=.)/gm, '    ');
}

function shownFile(file: string): string {
  const near = relative(process.cwd(), file);
  return near.startsWith('..') || near === '' ? file : near;
}
