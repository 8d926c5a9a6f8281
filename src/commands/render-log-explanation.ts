import { formatTime } from '../domain/time.js';
import { maskTokens } from '../domain/mask-tokens.js';
import type { LoggedCaller, LoggedRequest } from './access-log.js';
import type { LoggedExplanation } from './explain-log.js';
import { changesObject, renderChanges } from './render-changes.js';
import { renderExplanation, renderLabelled, renderRoute, shown } from './render-explanation.js';

type Row = readonly [label: string, text: string];

export function renderLogExplanation(explained: LoggedExplanation): string {
  const { entry, explanation, hasVerdict, notes, changes } = explained;
  const parts = [
    shown([`request ${entry.requestId}`, '']),
    renderLabelled([
      ...loggedRows(entry),
      ...configRows(explained),
      ...notes.map((note): Row => ['note', note]),
    ]),
  ];
  if (explanation !== null) parts.push('\n', hasVerdict ? renderExplanation(explanation) : renderRoute(explanation));
  parts.push('\n', renderLabelled(comparisonRows(explained)));
  if (changes !== null) parts.push(renderChanges(changes));
  return parts.join('');
} // prettier-ignore

/** Returns the explanation for JSON output. */
export function logExplanationObject(explained: LoggedExplanation) {
  const { entry, entries, explanation, hasVerdict, changes } = explained;
  return {
    request_id: entry.requestId,
    logged: entryObject(entry),
    others: entries.slice(0, -1).map(entryObject),
    configuration: { file: explained.file, config_hash: explained.configHash, of_then: explained.isOriginalConfig },
    notes: explained.notes,
    judged: hasVerdict,
    explanation: explanation === null || hasVerdict ? explanation : { ...explanation, checks: [], verdict: null, identity: {} },
    comparison: explained.comparison,
    changes: changes === null ? null : changesObject(changes),
  };
} // prettier-ignore

function loggedRows(entry: LoggedRequest): Row[] {
  const { status, outcome, time, detail, rule, caller, client } = entry;
  const at = time === null ? '' : `, ${new Date(time).toISOString()}`;
  return [
    ['logged', `${status ?? 'no response'} ${outcome}${at}`],
    ...(detail === null ? [] : [['', detail] as const]),
    ...(rule === null ? [] : [['', `by the rule ${rule}`] as const]),
    ['by', `${caller === null ? 'an unknown caller' : callerText(caller)}${client === null ? '' : `, from ${client}`}`],
  ];
} // prettier-ignore

function callerText(caller: LoggedCaller): string {
  const { userId, customerId } = caller;
  const of = `of the user ${userId} (customer ${customerId})`;
  switch (caller.credential) {
    case 'session':
      return `session ${caller.sessionId} ${of}`;
    case 'jwt':
      return `jwt of ${caller.issuer}, subject ${caller.subject} (customer ${customerId})`;
    default:
      return `${caller.credential} ${caller.tokenId} ${of}`;
  }
}

function configRows({ entry, entries, file, configHash, isOriginalConfig }: LoggedExplanation): Row[] {
  const rows: Row[] = [];
  if (isOriginalConfig === true) rows.push(['config', `${configHash} (${file}), the one that decided`]);
  else {
    const then =
      isOriginalConfig === null
        ? 'the log does not name the configuration that decided: it was written by an older Latchkey'
        : `the log names ${entry.configHash}: pass the file of that time, in the same folder, with --config OLD`;
    rows.push(['config', `${configHash} (${file}), not the one that decided`], ['', then]);
    if (isOriginalConfig === null) rows[0] = ['config', `${configHash} (${file})`];
  }
  const others = entries.slice(0, -1);
  if (others.length === 0) return rows;
  return [
    ...rows,
    ['note', `${entries.length} entries have this request_id; the last one is explained. The others:`],
    ...others.map((other): Row => ['', entryText(other)]),
  ];
}

function entryText({ time, method, path, status, outcome, configHash }: LoggedRequest): string {
  const at = time === null ? '' : `${new Date(time).toISOString()} `;
  return `${at}${method} ${path}: ${status} ${outcome}${configHash === null ? '' : `, by ${configHash}`}`;
}

function comparisonRows({ entry, comparison, isOriginalConfig, explanation }: LoggedExplanation): Row[] {
  const logged = `${entry.status ?? 'no response'} ${entry.outcome}`;
  switch (comparison.result) {
    case 'same':
      return [['compared', `the same as logged: ${logged}`]];
    case 'undetermined':
      return [
        ['compared', `not by the rules alone: ${logged} was decided by`],
        ['', comparison.reason ?? ''],
      ];
    default:
      return [
        ['compared', `not as logged: ${logged} then, ${explanation?.verdict.outcome} now`],
        ['', whyDifferent(isOriginalConfig)],
      ];
  }
}

function whyDifferent(isOriginalConfig: boolean | null): string {
  return isOriginalConfig === true
    ? 'the same configuration: a user, a token or the directory has changed since, or something that the log does not contain decided (header fields, body, query values)'
    : 'the configurations differ; users and tokens may also have changed since';
}

function entryObject(entry: LoggedRequest) {
  const { caller } = entry;
  return {
    time: entry.time === null ? null : formatTime(entry.time),
    method: entry.method,
    path: entry.path === null ? null : maskTokens(entry.path),
    status: entry.status,
    outcome: entry.outcome,
    decision: entry.decision,
    detail: entry.detail,
    rule: entry.rule,
    route: entry.route,
    action: entry.action,
    client: entry.client,
    config_hash: entry.configHash,
    credential: caller?.credential ?? null,
    user_id: caller?.userId ?? null,
    customer_id: caller?.customerId ?? null,
    token_id: caller !== null && 'tokenId' in caller ? caller.tokenId : null,
  };
}
