import { relative } from 'node:path';
import { loadCandidate, loadConfig } from '../config/load.js';
import { counted, maskTokens, printable } from '../util/text.js';
import { METHODS } from '../domain/methods.js';
import { type ComparedPolicies, diffPolicies } from '../policy-diff/compare.js';
import type {
  ChangedDecisions,
  ChangedRoute,
  DecidingRule,
  PolicyDiff,
  ReportedRoute,
} from '../policy-diff/report.js';
import type { ServiceLimit } from '../policy-diff/side.js';
import { uncomparedKeys } from '../policy-diff/uncompared.js';
import type { AffectedRequests, ReplayReport } from './replay.js';
import { asJson, print, renderList } from './terminal/output.js';

interface PolicyDiffOptions {
  readonly config: string;
  readonly against: string;
  readonly requests?: string;
  readonly allow?: readonly string[];
  readonly json?: true;
}

export async function policyDiff(options: PolicyDiffOptions): Promise<number> {
  const running = loadConfig(options.config);
  const candidate = loadCandidate(options.against, running);
  const compared = await diffPolicies(running, candidate);
  const { requests: log } = options;
  const requests =
    log === undefined ? undefined : await (await import('./replay.js')).replay(running, compared, log);
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

function resultOf(
  { diff }: ComparedPolicies,
  notCompared: readonly string[],
  requests: ReplayReport | undefined,
): Result {
  const replayed = requests?.noticed.map(({ change }) => change) ?? [];
  if (diff.newly_allowed.length > 0 || replayed.includes('newly_allowed')) return 'allows_more';
  if (notCompared.length > 0) return 'incomplete';
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

/** Newly allowed requests come first, because nobody would complain about them. */
async function renderPolicyDiff(report: PolicyDiffReport): Promise<string> {
  const { newly_allowed: allowed, newly_refused: refused, requests } = report;
  const parts = [
    `${shownFile(report.config)} -> ${shownFile(report.against)}`,
    ...(await sectionOf('NEWLY ALLOWED', allowed)),
    ...(await sectionOf('NEWLY REFUSED', refused)),
    ...(requests === undefined ? [] : await requestsOf(requests)),
    ...notComparedOf(report.not_compared),
    summaryOf(report),
  ];
  return `${parts.map((part) => part.split('\n').map(printable).join('\n').trimEnd()).join('\n\n')}\n`;
}

function notComparedOf(keys: readonly string[]): string[] {
  if (keys.length === 0) return [];
  return [`DIFFERS, NOT COMPARED (after a review, pass each with --allow KEY)\n\n${indented(keys.join('\n'))}`];
} // prettier-ignore

function summaryOf({ newly_allowed: allowed, newly_refused: refused, not_compared: left }: PolicyDiffReport) {
  if (allowed.length + refused.length > 0)
    return `${counted(allowed.length, 'change')} that ${allowed.length === 1 ? 'allows' : 'allow'} more, ${refused.length} that ${refused.length === 1 ? 'refuses' : 'refuse'} more`;
  return left.length > 0 ? 'No change found, but not everything was compared' : 'Nothing changes';
}

async function sectionOf(title: string, changes: readonly ChangedDecisions[]): Promise<string[]> {
  if (changes.length === 0) return [];
  const ordered = [false, true].flatMap((special) => changes.filter(({ conditions }) => conditions.length > 0 === special));
  return [title, ...(await Promise.all(ordered.map(changeOf)))];
} // prettier-ignore

async function changeOf(change: ChangedDecisions): Promise<string> {
  const lines = [['who', whoOf(change)]];
  if (change.scopes.length > 0) lines.push(['tokens', change.service_limits.map((limit) => LIMITS[limit]).join(', ')]); // prettier-ignore
  if (change.conditions.length > 0) lines.push(['if', change.conditions.join('; or ')]);
  lines.push(['now', ruleText(change.rule)], ['then', ruleText(change.against_rule)]);
  const head = lines.map(([label = '', text = '']) => `  ${label.padEnd(6)}  ${text}`);
  const table = await renderList(change.routes.map(rowOf), ['methods', 'route', 'action', 'place']);
  return `${head.join('\n')}\n\n${indented(table)}`;
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

function rowOf({ examples, config, against, host }: ChangedRoute) {
  const methods = METHODS.filter((method) => Object.hasOwn(examples, method));
  const path = pathOf(config, against);
  return {
    methods: methods.length === METHODS.length ? 'any' : shownMethods(methods),
    route: host === null ? path : `${path} (host ${host})`,
    action: changeText(config?.action ?? '', against?.action ?? ''),
    place: changeText(positionOf(config), positionOf(against)),
  };
}

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
  const { requests, newly_allowed: allowed, newly_refused: refused, unchanged, noticed } = replayed;
  const { not_judged: undecided, other_configuration: others, unreadable_lines: unread } = replayed;
  const parts = [`REQUESTS of the log: ${counted(requests, 'request')}, ${allowed} newly allowed, ${refused} newly refused, ${unchanged} unchanged`];
  if (noticed.length > 0) parts.push(indented(await renderList(noticed.map(noticedRow), NOTICED)));
  const left = [
    ...undecided.map(({ why, requests: number }) => `  ${number} not compared: ${why}`),
    ...(others > 0 ? [`  ${others} were decided by a configuration other than --config`] : []),
    ...(unread > 0 ? [`  ${counted(unread, 'line')} could not be read`] : []),
  ];
  return left.length === 0 ? parts : [...parts, left.join('\n')];
} // prettier-ignore

const NOTICED = [
  'change', 'customer_id', 'user', 'credential', 'token_id', 'token_name', 'method', 'route', 'requests', 'first', 'last', 'rule',
]; // prettier-ignore

function noticedRow(each: AffectedRequests) {
  return {
    ...each,
    user: each.login ?? each.user_id ?? 'unknown',
    route: pathOf(each.route, each.against_route),
    rule: ruleText(each.change === 'newly_allowed' ? each.rule : each.against_rule),
  };
}

function indented(table: string): string {
  return table.replace(/^(?=.)/gm, '    ');
}

function shownFile(file: string): string {
  const near = relative(process.cwd(), file);
  return near.startsWith('..') || near === '' ? file : near;
}
