import type { describeDifferences } from '../pipeline/shadow-differences.js';
import { adminUrl, requestAdmin } from './admin-port.js';
import { CommandFailed } from './terminal/failure.js';
import type { ReportOptions } from './terminal/options.js';
import { renderTable, report } from './terminal/output.js';

export interface PolicyShadowOptions extends ReportOptions {
  /** Origin of the admin port; absent: the one in the configuration. */
  readonly admin?: string;
}

/** The response of the admin port. */
type ShadowReport =
  | { readonly policy_shadow: null }
  | ({ readonly policy_shadow: string; readonly is_same: boolean } & ReturnType<typeof describeDifferences>);

type Difference = ReturnType<typeof describeDifferences>['casualties'][number];

/**
 * Prints what the shadow policy of a running server would decide differently.
 *
 * @throws CommandFailed when the server has no shadow policy
 */
export async function policyShadow(options: PolicyShadowOptions): Promise<void> {
  const url = `${options.admin ?? adminUrl(options.config)}/-/shadow`;
  const { status, text } = await requestAdmin(url);
  if (status !== 200) throw new CommandFailed(`${url} responded with ${status}: ${text}`);
  const answer = reportIn(text);
  if (answer === undefined)
    throw new CommandFailed(
      `${url} is not the admin port of a Latchkey: its response is not a report; check --admin`,
    );
  if (answer.policy_shadow === null)
    throw new CommandFailed('the server has no shadow policy; set policy_shadow and reload');
  report(options, answer, await render(answer));
}

/** Returns the report of a response; undefined for any other text. */
function reportIn(text: string): ShadowReport | undefined {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === 'object' && value !== null && 'policy_shadow' in value
      ? (value as ShadowReport)
      : undefined;
  } catch {
    return undefined;
  }
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
  const heading = ['COUNT', 'CHANGE', 'CALLER', 'ROUTE', 'ACTION', 'NOW', 'BY', 'THEN', 'BY', 'USER AGENT'];
  const table = await renderTable(heading, casualties.map(rowOf));
  return [...summary, '', table.trimEnd()].join('\n');
}

function rowOf(each: Difference): string[] {
  const { count, overcount: over, change, live, shadow, user_agent: userAgent } = each;
  return [
    `${over > 0 ? '<=' : ''}${count}`,
    change,
    callerOf(each),
    live.route ?? '',
    live.action ?? shadow.action ?? '',
    live.outcome,
    live.rule ?? '',
    shadow.outcome,
    shadow.rule ?? '',
    userAgent ?? '',
  ];
}

function callerOf({ credential, token_id: token, user_id: user, issuer, subject }: Difference): string {
  if (credential === null) return 'nobody';
  if (credential === 'jwt') return `jwt ${issuer} ${subject}`;
  return token === null ? `${credential} of ${user}` : `${credential} ${token} of ${user}`;
}
